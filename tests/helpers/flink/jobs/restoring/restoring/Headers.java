package restoring;

import fixtures.Json;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.serialization.SerializerConfig;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSchemaCompatibility;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.core.memory.DataInputViewStreamWrapper;
import org.apache.flink.runtime.checkpoint.Checkpoints;
import org.apache.flink.runtime.checkpoint.OperatorState;
import org.apache.flink.runtime.checkpoint.OperatorSubtaskState;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.state.CompletedCheckpointStorageLocation;
import org.apache.flink.runtime.state.IncrementalRemoteKeyedStateHandle;
import org.apache.flink.runtime.state.KeyGroupsStateHandle;
import org.apache.flink.runtime.state.KeyedBackendSerializationProxy;
import org.apache.flink.runtime.state.KeyedStateHandle;
import org.apache.flink.runtime.state.OperatorBackendSerializationProxy;
import org.apache.flink.runtime.state.OperatorStateHandle;
import org.apache.flink.runtime.state.changelog.ChangelogStateBackendHandle;
import org.apache.flink.runtime.state.filesystem.AbstractFsCheckpointStorageAccess;
import org.apache.flink.runtime.state.metainfo.StateMetaInfoSnapshot;
import org.apache.flink.runtime.state.metainfo.StateMetaInfoSnapshot.CommonSerializerKeys;
import org.apache.flink.runtime.state.ttl.TtlStateFactory;
import org.apache.flink.streaming.api.operators.TimerSerializer;

/**
 * What the backends' headers in a savepoint say, beside the serializers of a job: for each state and part (key,
 * namespace, value, …) whether Flink finds the job's serializer compatible, as lines of JSON.
 */
final class Headers {
    private static final ClassLoader LOADER = Headers.class.getClassLoader();
    private final SerializerConfig config;
    private final Map<String, String> lines = new LinkedHashMap<>();

    private Headers(SerializerConfig config) {
        this.config = config;
    }

    static List<String> compared(Spec spec, Map<OperatorID, Spec.Operator> operators, SerializerConfig config)
            throws IOException {
        Headers headers = new Headers(config);
        for (OperatorState state : states(spec.path)) {
            Spec.Operator operator = operators.get(state.getOperatorID());
            if (operator != null && operator.windows == null && !operator.kafka) {
                headers.compare(state, operator);
            }
        }
        return new ArrayList<>(headers.lines.values());
    }

    private static Iterable<OperatorState> states(String path) throws IOException {
        CompletedCheckpointStorageLocation location = AbstractFsCheckpointStorageAccess.resolveCheckpointPointer(path);
        try (DataInputStream in = new DataInputStream(location.getMetadataHandle().openInputStream())) {
            return Checkpoints.loadCheckpointMetadata(in, LOADER, location.getExternalPointer()).getOperatorStates();
        }
    }

    private void compare(OperatorState state, Spec.Operator operator) throws IOException {
        for (OperatorSubtaskState subtask : state.getStates()) {
            for (KeyedStateHandle handle : subtask.getManagedKeyedState()) {
                keyed(handle, operator);
            }
            for (OperatorStateHandle handle : subtask.getManagedOperatorState()) {
                try (InputStream in = handle.openInputStream()) {
                    operatorStates(in, operator);
                }
            }
        }
    }

    private void keyed(KeyedStateHandle handle, Spec.Operator operator) throws IOException {
        if (handle instanceof ChangelogStateBackendHandle) {
            for (KeyedStateHandle inner : ((ChangelogStateBackendHandle) handle).getMaterializedStateHandles()) {
                keyed(inner, operator);
            }
        } else if (handle instanceof KeyGroupsStateHandle) {
            try (InputStream in = ((KeyGroupsStateHandle) handle).openInputStream()) {
                keyedStates(in, operator);
            }
        } else if (handle instanceof IncrementalRemoteKeyedStateHandle) {
            try (InputStream in =
                    ((IncrementalRemoteKeyedStateHandle) handle).getMetaDataStateHandle().openInputStream()) {
                keyedStates(in, operator);
            }
        } else {
            throw new IOException("no header is known in a " + handle.getClass().getName());
        }
    }

    private void keyedStates(InputStream in, Spec.Operator operator) throws IOException {
        KeyedBackendSerializationProxy<Object> proxy = new KeyedBackendSerializationProxy<>(LOADER);
        proxy.read(new DataInputViewStreamWrapper(in));
        if (operator.key == null) {
            throw new IOException(operator.label() + " has keyed state, but its spec has no key");
        }
        TypeSerializer<Object> key = Language.type(operator.key).serializer(config);
        note(operator, null, "key", key, proxy.getKeySerializerSnapshot());
        for (StateMetaInfoSnapshot info : proxy.getStateMetaInfoSnapshots()) {
            boolean queue = info.getBackendStateType() == StateMetaInfoSnapshot.BackendStateType.PRIORITY_QUEUE;
            if (queue) {
                timers(operator, key, info);
            } else {
                keyedState(operator, info);
            }
        }
    }

    private void timers(Spec.Operator operator, TypeSerializer<Object> key, StateMetaInfoSnapshot info) {
        for (Spec.Timers timers : operator.timers) {
            String name = info.getName().replaceFirst("^_timer_state/(event|processing)_", "");
            if (name.equals(timers.service)) {
                TypeSerializer<Object> namespace = Language.type(timers.namespace).serializer(config);
                note(operator, info.getName(), "value", new TimerSerializer<>(key, namespace), value(info));
                return;
            }
        }
        unread(operator, info);
    }

    private void keyedState(Spec.Operator operator, StateMetaInfoSnapshot info) {
        Spec.State state = find(operator, info, true);
        if (state == null) {
            unread(operator, info);
            return;
        }
        TypeSerializer<?> namespace = Language.type(state.namespace).serializer(config);
        TypeSerializerSnapshot<?> namespaces = snapshot(info, CommonSerializerKeys.NAMESPACE_SERIALIZER);
        note(operator, info.getName(), "namespace", namespace, namespaces);
        note(operator, info.getName(), "value", valueSerializer(state), value(info));
    }

    /** The serializer a backend registers: with a time to live, elements and user values are wrapped. */
    private TypeSerializer<?> valueSerializer(Spec.State state) {
        Type type = Language.type(state.type);
        if (state.ttl == null) {
            StateDescriptor<?, ?> descriptor = KeyedStates.descriptor(state, config);
            return descriptor.getSerializer();
        } else if (state.kind.equals("list")) {
            return new org.apache.flink.api.common.typeutils.base.ListSerializer<>(wrapped(type.part(0)));
        } else if (state.kind.equals("map")) {
            return new org.apache.flink.api.common.typeutils.base.MapSerializer<>(
                    type.part(0).serializer(config), wrapped(type.part(1)));
        }
        return wrapped(type);
    }

    private TypeSerializer<?> wrapped(Type type) {
        return new TtlStateFactory.TtlSerializer<>(LongSerializer.INSTANCE, type.serializer(config));
    }

    private void operatorStates(InputStream in, Spec.Operator operator) throws IOException {
        OperatorBackendSerializationProxy proxy = new OperatorBackendSerializationProxy(LOADER);
        proxy.read(new DataInputViewStreamWrapper(in));
        for (StateMetaInfoSnapshot info : proxy.getOperatorStateMetaInfoSnapshots()) {
            Spec.State state = find(operator, info, false);
            if (state == null) {
                unread(operator, info);
            } else {
                TypeSerializer<?> element = Language.type(state.type).part(0).serializer(config);
                note(operator, info.getName(), "value", element, value(info));
            }
        }
        for (StateMetaInfoSnapshot info : proxy.getBroadcastStateMetaInfoSnapshots()) {
            Spec.State state = find(operator, info, false);
            if (state == null) {
                unread(operator, info);
            } else {
                Type type = Language.type(state.type);
                TypeSerializerSnapshot<?> key = snapshot(info, CommonSerializerKeys.KEY_SERIALIZER);
                note(operator, info.getName(), "map key", type.part(0).serializer(config), key);
                note(operator, info.getName(), "value", type.part(1).serializer(config), value(info));
            }
        }
    }

    private static Spec.State find(Spec.Operator operator, StateMetaInfoSnapshot info, boolean keyed) {
        return operator.states.stream()
                .filter(state -> state.name.equals(info.getName()) && state.keyed() == keyed)
                .findFirst()
                .orElse(null);
    }

    private static TypeSerializerSnapshot<?> value(StateMetaInfoSnapshot info) {
        return snapshot(info, CommonSerializerKeys.VALUE_SERIALIZER);
    }

    private static TypeSerializerSnapshot<?> snapshot(StateMetaInfoSnapshot info, CommonSerializerKeys key) {
        return info.getTypeSerializerSnapshot(key);
    }

    private void unread(Spec.Operator operator, StateMetaInfoSnapshot info) {
        add(operator, info.getName(), "unread", info.getBackendStateType().name());
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private void note(
            Spec.Operator operator, String state, String part, TypeSerializer<?> ours, TypeSerializerSnapshot<?> old) {
        TypeSerializerSnapshot fresh = ours.snapshotConfiguration();
        TypeSerializerSchemaCompatibility<?> found = fresh.resolveSchemaCompatibility(old);
        String answer =
                found.isCompatibleAsIs()
                        ? "as is"
                        : found.isCompatibleAfterMigration()
                                ? "after migration"
                                : found.isCompatibleWithReconfiguredSerializer() ? "reconfigured" : "incompatible";
        add(operator, state, part, answer);
    }

    /** Subtasks should agree; where they do not, each answer has its line. */
    private void add(Spec.Operator operator, String state, String part, String value) {
        Object[] pairs = {"uid", operator.label(), "state", state, "part", part, "value", value};
        String line = Json.of(Json.object(pairs));
        lines.put(line, line);
    }
}
