package restoring;

import java.lang.reflect.Field;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.common.serialization.SerializerConfig;
import org.apache.flink.api.common.state.AggregatingStateDescriptor;
import org.apache.flink.api.common.state.AppendingState;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ReducingStateDescriptor;
import org.apache.flink.api.common.state.State;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.runtime.state.internal.InternalAppendingState;
import org.apache.flink.runtime.state.ttl.TtlValue;

/** How each kind of keyed state is registered and its contents are read for the current key and namespace. */
final class KeyedStates {
    private KeyedStates() {}

    /** The descriptor a job would register; a list's type is LIST(…), a map's MAP(…, …). */
    static StateDescriptor<?, ?> descriptor(Spec.State state, SerializerConfig config) {
        Type type = Language.type(state.type);
        StateDescriptor<?, ?> descriptor;
        switch (state.kind) {
            case "value":
                descriptor = new ValueStateDescriptor<>(state.name, type.serializer(config));
                break;
            case "list":
                descriptor = new ListStateDescriptor<>(state.name, type.part(0).serializer(config));
                break;
            case "map":
                descriptor =
                        new MapStateDescriptor<>(
                                state.name, type.part(0).serializer(config), type.part(1).serializer(config));
                break;
            case "reducing":
                descriptor = new ReducingStateDescriptor<>(state.name, new Unused(), type.serializer(config));
                break;
            case "aggregating":
                descriptor = new AggregatingStateDescriptor<>(state.name, new Itself(), type.serializer(config));
                break;
            default:
                throw new IllegalArgumentException("no keyed state is of the kind " + state.kind);
        }
        if (state.ttl != null) {
            descriptor.enableTimeToLive(StateTtlConfig.newBuilder(Duration.ofMillis(state.ttl)).build());
        }
        return descriptor;
    }

    /** Null if the state holds nothing here. */
    static Object contents(Spec.State spec, Type type, State state) throws Exception {
        switch (spec.kind) {
            case "value":
                return type.view(((ValueState<?>) state).value());
            case "list":
                Iterable<?> items = ((ListState<?>) state).get();
                return items == null || !items.iterator().hasNext() ? null : type.part(0).viewAll(items);
            case "map":
                Iterable<? extends Map.Entry<?, ?>> entries = ((MapState<?, ?>) state).entries();
                boolean nothing = entries == null || !entries.iterator().hasNext();
                return nothing ? null : Type.viewEntries(entries, type.part(0), type.part(1));
            default:
                return type.view(((AppendingState<?, ?>) state).get());
        }
    }

    /** The last access of a state with a time to live, in milliseconds: one, or one per element or entry. */
    static Object lastAccess(Spec.State spec, Type type, State state) throws Exception {
        Object inner = inner(state);
        Type time = Language.type("LONG");
        switch (spec.kind) {
            case "value":
                return access(((ValueState<?>) inner).value());
            case "list":
                List<Object> times = new ArrayList<>();
                Iterable<?> items = ((ListState<?>) inner).get();
                if (items != null) {
                    items.forEach(item -> times.add(access(item)));
                }
                return times;
            case "map":
                List<Map.Entry<?, ?>> entries = new ArrayList<>();
                for (Map.Entry<?, ?> entry : ((MapState<?, ?>) inner).entries()) {
                    entries.add(new java.util.AbstractMap.SimpleEntry<>(entry.getKey(), access(entry.getValue())));
                }
                return Type.viewEntries(entries, type.part(0), time);
            default:
                return access(((InternalAppendingState<?, ?, ?, ?, ?>) inner).getInternal());
        }
    }

    private static Object access(Object value) {
        return value == null ? null : ((TtlValue<?>) value).getLastAccessTimestamp();
    }

    /** The state behind `AbstractTtlDecorator`, whose values carry their last access. */
    private static Object inner(State state) throws ReflectiveOperationException {
        for (Class<?> type = state.getClass(); type != Object.class; type = type.getSuperclass()) {
            if (type.getSimpleName().equals("AbstractTtlDecorator")) {
                Field original = type.getDeclaredField("original");
                original.setAccessible(true);
                return original.get(state);
            }
        }
        throw new IllegalStateException("no time to live: " + state.getClass());
    }

    /** Reading reduces nothing. */
    public static final class Unused implements ReduceFunction<Object> {
        @Override
        public Object reduce(Object left, Object right) {
            throw new UnsupportedOperationException("the restored job only reads");
        }
    }

    /** The accumulator is the result. */
    public static final class Itself implements AggregateFunction<Object, Object, Object> {
        @Override
        public Object createAccumulator() {
            throw new UnsupportedOperationException("the restored job only reads");
        }

        @Override
        public Object add(Object value, Object accumulator) {
            throw new UnsupportedOperationException("the restored job only reads");
        }

        @Override
        public Object getResult(Object accumulator) {
            return accumulator;
        }

        @Override
        public Object merge(Object left, Object right) {
            throw new UnsupportedOperationException("the restored job only reads");
        }
    }
}
