package restoring;

import fixtures.Json;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.runtime.checkpoint.MasterTriggerRestoreHook;
import org.apache.flink.streaming.api.checkpoint.WithMasterCheckpointHook;

/** A function with a hook on the JobManager, which notes the state that the hook is restored with. */
final class HookAgain implements MapFunction<Long, Long>, WithMasterCheckpointHook<Json.Raw> {
    private final String name;

    HookAgain(String name) {
        this.name = name;
    }

    @Override
    public Long map(Long number) {
        return number;
    }

    @Override
    public MasterTriggerRestoreHook<Json.Raw> createMasterTriggerRestoreHook() {
        return new Hook(name);
    }

    /** Has no state of its own. */
    private static final class Hook implements MasterTriggerRestoreHook<Json.Raw> {
        private final String name;

        Hook(String name) {
            this.name = name;
        }

        @Override
        public String getIdentifier() {
            return name;
        }

        @Override
        public CompletableFuture<Json.Raw> triggerCheckpoint(long checkpoint, long timestamp, Executor executor) {
            return null;
        }

        @Override
        public void restoreCheckpoint(long checkpoint, Json.Raw state) {
            Findings.master(name, state);
        }

        @Override
        public SimpleVersionedSerializer<Json.Raw> createCheckpointDataSerializer() {
            return new Noted();
        }
    }

    /** The version and the bytes that the snapshot has, whatever they mean. */
    private static final class Noted implements SimpleVersionedSerializer<Json.Raw> {
        @Override
        public int getVersion() {
            return 0;
        }

        @Override
        public byte[] serialize(Json.Raw state) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Json.Raw deserialize(int version, byte[] state) {
            return Json.object("version", version, "bytes", state);
        }
    }
}
