package stateproc.vectors;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.ListSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** What the runtime wraps around user types: TTL, timers, windows, stream elements, joins, sinks. */
final class RuntimeTypes {
    private static final String STATE = "org.apache.flink.runtime.state.";
    private static final String STREAMING = "org.apache.flink.streaming.";
    private static final TypeSerializer<Long> LONG = LongSerializer.INSTANCE;
    private static final TypeSerializer<String> STRING = StringSerializer.INSTANCE;

    private RuntimeTypes() {}

    static void write(Vectors vectors) throws Exception {
        vectors.attempt("VoidNamespace", () -> vectors.addPairs("VoidNamespace",
                Reflect.constant(STATE + "VoidNamespaceSerializer", "INSTANCE"),
                Reflect.constant(STATE + "VoidNamespace", "INSTANCE"), null));
        vectors.attempt("ArrayList", () -> vectors.add("ArrayList",
                (TypeSerializer<?>) Reflect.create(STATE + "ArrayListSerializer", STRING),
                new ArrayList<>(), new ArrayList<>(Arrays.asList("a", "é"))));
        vectors.attempt("Java", () -> vectors.add("Java", (TypeSerializer<?>) Reflect.create(STATE + "JavaSerializer"),
                "é", 5L, -1, new ArrayList<>(Arrays.asList("a", "b")), new java.util.Date(5), true, 1.5));
        vectors.attempt("TTL", () -> ttl(vectors));
        vectors.attempt("TTL v2", () -> ttlOfV2(vectors));
        vectors.attempt("Timer", () -> timers(vectors));
        windows(vectors);
        vectors.attempt("StreamElement", () -> streamElements(vectors));
        vectors.attempt("Union", () -> union(vectors));
        vectors.attempt("BufferEntry", () -> bufferEntries(vectors));
        vectors.attempt("TwoPhaseCommit", () -> twoPhaseCommit(vectors));
        vectors.attempt("ByteArrayWrapper", () -> byteArrayWrappers(vectors));
    }

    private static void ttl(Vectors vectors) throws Exception {
        for (TypeSerializer<?> inner : Arrays.asList(LONG, STRING, new ListSerializer<>(STRING))) {
            Object value = inner == LONG ? (Object) (-7L) : inner == STRING ? "é" : Arrays.asList("a", "b");
            TypeSerializer<?> ttl = Reflect.create(STATE + "ttl.TtlStateFactory$TtlSerializer", LONG, inner);
            String name = "Ttl of " + inner.getClass().getSimpleName();
            Object[] pairs = {ttlValue(value, 0L), Json.object("last_access", 0L, "value", value),
                ttlValue(value, 1_700_000_000_123L), Json.object("last_access", 1_700_000_000_123L, "value", value)};
            vectors.addPairs(name, ttl, pairs);
            vectors.attempt("TtlAware", () -> {
                vectors.addPairs("TtlAware " + name, Reflect.create(STATE + "ttl.TtlAwareSerializer", ttl), pairs);
                vectors.add("TtlAware of " + inner.getClass().getSimpleName(),
                        (TypeSerializer<?>) Reflect.create(STATE + "ttl.TtlAwareSerializer", inner), value);
            });
        }
    }

    /** The TTL wrapper of the asynchronous states of 2.x. */
    private static void ttlOfV2(Vectors vectors) throws Exception {
        vectors.addPairs("Ttl v2 of String", Reflect.create(STATE + "v2.ttl.TtlStateFactory$TtlSerializer", LONG, STRING),
                ttlValue("é", 5L), Json.object("last_access", 5L, "value", "é"));
    }

    private static Object ttlValue(Object value, long lastAccess) throws Exception {
        return Reflect.create(STATE + "ttl.TtlValue", value, lastAccess);
    }

    private static void timers(Vectors vectors) throws Exception {
        TypeSerializer<?> none = Reflect.constant(STATE + "VoidNamespaceSerializer", "INSTANCE");
        Object nothing = Reflect.constant(STATE + "VoidNamespace", "INSTANCE");
        List<Object> pairs = new ArrayList<>();
        List<Object> windowed = new ArrayList<>();
        for (long time : new long[] {0, 1000, -1, Long.MAX_VALUE, Long.MIN_VALUE}) {
            pairs.add(timer(time, time / 3, nothing));
            pairs.add(Json.object("timestamp", time, "key", time / 3, "namespace", null));
            windowed.add(timer(time, "key é", new TimeWindow(-1, time)));
            windowed.add(Json.object("timestamp", time, "key", "key é", "namespace", Json.object("start", -1, "end", time)));
        }
        vectors.addPairs("Timer", Reflect.create(STREAMING + "api.operators.TimerSerializer", LONG, none), pairs.toArray());
        vectors.addPairs("Timer of String and TimeWindow",
                Reflect.create(STREAMING + "api.operators.TimerSerializer", STRING, new TimeWindow.Serializer()), windowed.toArray());
        TypeSerializer<?> row = Vectors.serializer(Types.ROW(Types.STRING, Types.LONG));
        org.apache.flink.types.Row key = org.apache.flink.types.Row.of(null, 5L);
        vectors.addPairs("Timer of Row", Reflect.create(STREAMING + "api.operators.TimerSerializer", row, none),
                timer(7, key, nothing), Json.object("timestamp", 7, "key", Encode.value(key), "namespace", null));
    }

    private static Object timer(long time, Object key, Object namespace) throws Exception {
        return Reflect.create(STREAMING + "api.operators.TimerHeapInternalTimer", time, key, namespace);
    }

    private static void windows(Vectors vectors) throws Exception {
        vectors.add("TimeWindow", new TimeWindow.Serializer(), new TimeWindow(0, 1000), new TimeWindow(-1, Long.MAX_VALUE),
                new TimeWindow(Long.MIN_VALUE, 0));
        vectors.addPairs("GlobalWindow", new GlobalWindow.Serializer(), GlobalWindow.get(), null);
        for (String table : new String[] {"TimeWindow", "GlobalWindow", "CountWindow"}) {
            String name = "org.apache.flink.table.runtime.operators.window." + table;
            vectors.attempt("table " + table, () -> {
                TypeSerializer<?> serializer = Reflect.create(name + "$Serializer");
                if (table.equals("TimeWindow")) {
                    vectors.add("table TimeWindow", serializer, (Object) Reflect.create(name, 0L, 1000L));
                } else if (table.equals("CountWindow")) {
                    vectors.add("table CountWindow", serializer, (Object) Reflect.create(name, 7L));
                } else {
                    vectors.addPairs("table GlobalWindow", serializer, Reflect.callStatic(name, "get"), null);
                }
            });
        }
    }

    private static void streamElements(Vectors vectors) throws Exception {
        List<Object> pairs = new ArrayList<>(Arrays.asList(
                new StreamRecord<>("é", 1000L), Json.object("timestamp", 1000L, "value", "é"),
                new StreamRecord<>("no timestamp"), Json.object("timestamp", null, "value", "no timestamp"),
                new Watermark(5), Json.object("watermark", 5L)));
        String streamRecord = STREAMING + "runtime.streamrecord.";
        vectors.attempt("Watermark of the runtime", () -> vectors.serialize(
                Reflect.create(streamRecord + "StreamElementSerializer", STRING), pairs.get(4)));
        vectors.attempt("LatencyMarker", () -> {
            Object id = Reflect.create("org.apache.flink.runtime.jobgraph.OperatorID", 1L, 2L);
            pairs.add(Reflect.create(streamRecord + "LatencyMarker", 9L, id, 3));
            pairs.add(Json.object("marked_time", 9L, "operator_id", id.toString(), "subtask", 3));
        });
        vectors.attempt("WatermarkStatus", () -> {
            boolean old = Reflect.exists(STREAMING + "runtime.streamstatus.StreamStatus");
            String status = STREAMING + (old ? "runtime.streamstatus.StreamStatus" : "runtime.watermarkstatus.WatermarkStatus");
            pairs.add(Reflect.constant(status, "IDLE"));
            pairs.add(Json.object("status", -1));
            pairs.add(Reflect.constant(status, "ACTIVE"));
            pairs.add(Json.object("status", 0));
        });
        vectors.attempt("RecordAttributes", () -> {
            pairs.add(Reflect.create(streamRecord + "RecordAttributes", true));
            pairs.add(Json.object("is_backlog", true));
        });
        vectors.attempt("InternalWatermark", () -> {
            pairs.add(Reflect.create("org.apache.flink.streaming.api.watermark.InternalWatermark", 11L, 2));
            pairs.add(Json.object("watermark", 11L, "subpartition", 2));
        });
        List<Object> written = new ArrayList<>();
        TypeSerializer<?> serializer = Reflect.create(streamRecord + "StreamElementSerializer", STRING);
        for (int i = 0; i < pairs.size(); i += 2) {
            int at = i;
            vectors.attempt("StreamElement[" + pairs.get(i) + "]", () -> {
                Vectors.serialize(serializer, pairs.get(at));
                written.addAll(pairs.subList(at, at + 2));
            });
        }
        vectors.addPairs("StreamElement", serializer, written.toArray());
    }

    private static void union(Vectors vectors) throws Exception {
        String tagged = Reflect.exists("org.apache.flink.util.TaggedUnion")
                ? "org.apache.flink.util.TaggedUnion" : STREAMING + "api.datastream.CoGroupedStreams$TaggedUnion";
        vectors.addPairs("Union", Reflect.create(STREAMING + "api.datastream.CoGroupedStreams$UnionSerializer", LONG, STRING),
                Reflect.callStatic(tagged, "one", 5L), Json.object("one", 5L),
                Reflect.callStatic(tagged, "two", "é"), Json.object("two", "é"));
    }

    private static void bufferEntries(Vectors vectors) throws Exception {
        String join = STREAMING + "api.operators.co.IntervalJoinOperator$BufferEntry";
        vectors.addPairs("BufferEntry", Reflect.create(join + "Serializer", STRING),
                Reflect.create(join, "é", true), Json.object("element", "é", "hasBeenJoined", true),
                Reflect.create(join, "", false), Json.object("element", "", "hasBeenJoined", false));
    }

    private static void twoPhaseCommit(Vectors vectors) throws Exception {
        String old = STREAMING + "api.functions.sink.TwoPhaseCommitSinkFunction$";
        String sink = Reflect.exists(old + "State") ? old : STREAMING + "api.functions.sink.legacy.TwoPhaseCommitSinkFunction$";
        Object first = Reflect.create(sink + "TransactionHolder", "t1", 10L);
        Object second = Reflect.create(sink + "TransactionHolder", "t2", 20L);
        Object one = Json.object("transaction", "t1", "start", 10L);
        Object two = Json.object("transaction", "t2", "start", 20L);
        List<Object> pairs = new ArrayList<>(Arrays.asList(
                Reflect.<Object>create(sink + "State", first, new ArrayList<>(Arrays.asList(second, first)), java.util.Optional.of(7L)),
                Json.object("pending", one, "pending_commits", Arrays.asList(two, one), "context", 7L),
                Reflect.<Object>create(sink + "State", second, new ArrayList<>(), java.util.Optional.empty()),
                Json.object("pending", two, "pending_commits", new ArrayList<>(), "context", null)));
        TypeSerializer<?> serializer = Reflect.create(sink + "StateSerializer", STRING, LONG);
        vectors.attempt("TwoPhaseCommit without transaction", () -> {
            Object none = Reflect.create(sink + "State", null, new ArrayList<>(), java.util.Optional.of(1L));
            Vectors.serialize(serializer, none);
            pairs.add(none);
            pairs.add(Json.object("pending", null, "pending_commits", new ArrayList<>(), "context", 1L));
        });
        vectors.addPairs("TwoPhaseCommit", serializer, pairs.toArray());
    }

    private static void byteArrayWrappers(Vectors vectors) throws Exception {
        String python = STREAMING + "api.utils.ByteArrayWrapper";
        List<Object> pairs = new ArrayList<>();
        for (byte[] bytes : new byte[][] {{}, {1, -1}, "pickle".getBytes("UTF-8")}) {
            pairs.add(Reflect.create(python, (Object) bytes));
            pairs.add(Encode.value(bytes));
        }
        vectors.addPairs("ByteArrayWrapper", Reflect.constant(python + "Serializer", "INSTANCE"), pairs.toArray());
    }
}
