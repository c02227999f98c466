package restoring;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.flink.api.common.serialization.SerializerConfig;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.State;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.runtime.state.StateInitializationContext;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.InternalTimer;
import org.apache.flink.streaming.api.operators.InternalTimerService;
import org.apache.flink.streaming.api.operators.OneInputStreamOperator;
import org.apache.flink.streaming.api.operators.Triggerable;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.runtime.tasks.ProcessingTimeService;

/** Registers the states of its spec as a job would, and notes all that Flink restored in them; all timers fire. */
public final class ReadBack extends AbstractStreamOperator<String> implements OneInputStreamOperator<Long, String> {
    private final String text;
    private transient Spec.Operator spec;
    private transient String uid;
    private transient Type keyType;

    public ReadBack(String spec) {
        this.text = spec;
    }

    @Override
    public ProcessingTimeService getProcessingTimeService() {
        return new FlyingTime(super.getProcessingTimeService());
    }

    @Override
    public void initializeState(StateInitializationContext context) throws Exception {
        super.initializeState(context);
        spec = Spec.operator(text);
        uid = spec.label();
        keyType = spec.key == null ? null : Language.type(spec.key);
        if (!context.isRestored()) {
            throw new IllegalStateException("the savepoint has no operator " + uid);
        }
    }

    @Override
    public void open() throws Exception {
        super.open();
        if (keyType != null) {
            Findings.backend(getKeyedStateBackend());
        }
        for (Spec.State state : spec.states) {
            if (state.keyed()) {
                readKeyed(state, Language.type(state.type), Language.type(state.namespace));
            } else {
                readOperatorState(state, Language.type(state.type));
            }
        }
        long waiting = 0;
        for (Spec.Timers timers : spec.timers) {
            waiting += readTimers(timers.service, Language.type(timers.namespace));
        }
        Findings.opened(waiting);
    }

    private SerializerConfig serializers() {
        return getExecutionConfig().getSerializerConfig();
    }

    private void readKeyed(Spec.State state, Type type, Type namespace) throws Exception {
        KeyedStateBackend<Object> backend = getKeyedStateBackend();
        TypeSerializer<Object> namespaces = namespace.serializer(serializers());
        StateDescriptor<?, ?> descriptor = KeyedStates.descriptor(state, serializers());
        register(backend, namespaces, descriptor);
        List<Tuple2<Object, Object>> all = new ArrayList<>();
        try (Stream<Tuple2<Object, Object>> found = backend.getKeysAndNamespaces(state.name)) {
            found.forEach(pair -> all.add(Tuple2.of(pair.f0, pair.f1)));
        }
        Set<String> seen = new HashSet<>();
        for (Tuple2<Object, Object> pair : all) {
            Object key = keyType.view(pair.f0);
            Object space = namespace.view(pair.f1);
            if (!seen.add(fixtures.Json.of(key) + fixtures.Json.of(space))) {
                continue;
            }
            backend.setCurrentKey(pair.f0);
            State here = partitioned(backend, pair.f1, namespaces, descriptor);
            Object access = state.ttl == null ? null : KeyedStates.lastAccess(state, type, here);
            Object value = KeyedStates.contents(state, type, here);
            if (value == null && state.ttl == null) {
                throw new IllegalStateException(
                        uid + "." + state.name + " lists the key " + fixtures.Json.of(key)
                                + ", but holds nothing where Flink looks for it");
            } else if (value != null && state.ttl == null) {
                Findings.keyed(uid, state.name, state.kind, key, space, value);
            } else if (value != null) {
                Findings.expiring(uid, state.name, state.kind, key, space, value, access);
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static void register(
            KeyedStateBackend<Object> backend, TypeSerializer<Object> namespaces, StateDescriptor<?, ?> descriptor)
            throws Exception {
        backend.getOrCreateKeyedState(namespaces, (StateDescriptor<State, Object>) descriptor);
    }

    @SuppressWarnings("unchecked")
    private static State partitioned(
            KeyedStateBackend<Object> backend,
            Object namespace,
            TypeSerializer<Object> namespaces,
            StateDescriptor<?, ?> descriptor)
            throws Exception {
        return backend.getPartitionedState(namespace, namespaces, (StateDescriptor<State, Object>) descriptor);
    }

    private void readOperatorState(Spec.State state, Type type) throws Exception {
        int subtask = getContainingTask().getEnvironment().getTaskInfo().getIndexOfThisSubtask();
        if (state.kind.equals("broadcast")) {
            MapStateDescriptor<Object, Object> descriptor =
                    new MapStateDescriptor<>(
                            state.name,
                            type.part(0).serializer(serializers()),
                            type.part(1).serializer(serializers()));
            for (Map.Entry<Object, Object> entry :
                    getOperatorStateBackend().getBroadcastState(descriptor).immutableEntries()) {
                Object key = type.part(0).view(entry.getKey());
                Findings.operator(uid, state.name, state.kind, subtask, key, type.part(1).view(entry.getValue()));
            }
            return;
        }
        Type element = type.part(0);
        ListStateDescriptor<Object> descriptor =
                new ListStateDescriptor<>(state.name, element.serializer(serializers()));
        boolean union = state.kind.equals("operator-union");
        Iterable<Object> items =
                union
                        ? getOperatorStateBackend().getUnionListState(descriptor).get()
                        : getOperatorStateBackend().getListState(descriptor).get();
        for (Object item : items) {
            Findings.operator(uid, state.name, state.kind, subtask, null, element.view(item));
        }
    }

    /** Returns how many processing-time timers will fire. */
    private long readTimers(String service, Type namespace) throws Exception {
        InternalTimerService<Object> timers =
                getInternalTimerService(service, namespace.serializer(serializers()), new Firing(service, namespace));
        long[] count = {0};
        timers.forEachEventTimeTimer((space, time) -> note(service, "timer-event", namespace.view(space), time));
        timers.forEachProcessingTimeTimer(
                (space, time) -> {
                    note(service, "timer-processing", namespace.view(space), time);
                    count[0]++;
                });
        return count[0];
    }

    private void note(String service, String kind, Object namespace, Long time) {
        Findings.keyed(uid, service, kind, keyType.view(getCurrentKey()), namespace, time);
    }

    @Override
    public void processElement(StreamRecord<Long> element) {
        throw new UnsupportedOperationException("the restored job has no input");
    }

    /** Notes the timers of one service as they fire. */
    private final class Firing implements Triggerable<Object, Object> {
        private final String service;
        private final Type namespace;

        Firing(String service, Type namespace) {
            this.service = service;
            this.namespace = namespace;
        }

        @Override
        public void onEventTime(InternalTimer<Object, Object> timer) {
            fired("fired-event", timer);
        }

        @Override
        public void onProcessingTime(InternalTimer<Object, Object> timer) {
            fired("fired-processing", timer);
            Findings.firedProcessingTime();
        }

        private void fired(String kind, InternalTimer<Object, Object> timer) {
            Object key = keyType.view(timer.getKey());
            Findings.keyed(uid, service, kind, key, namespace.view(timer.getNamespace()), timer.getTimestamp());
        }
    }
}
