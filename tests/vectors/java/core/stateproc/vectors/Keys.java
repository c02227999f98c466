package stateproc.vectors;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.java.tuple.Tuple1;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.types.Row;

/** Composite key bytes, default maximum parallelism and operator ids. */
final class Keys {
    private static final String BUILDER = "org.apache.flink.runtime.state.SerializedCompositeKeyBuilder";
    private static final String OLD_BUILDER =
            "org.apache.flink.contrib.streaming.state.RocksDBSerializedCompositeKeyBuilder";
    private static final TypeSerializer<String> STRING = StringSerializer.INSTANCE;
    private static final TypeSerializer<Long> LONG = LongSerializer.INSTANCE;
    private static final int[] MAX_PARALLELISM = {128, 129, 32768};

    private Keys() {}

    static void write(Vectors vectors) throws Exception {
        vectors.attempt("composite keys", () -> vectors.document.put("composite_keys", compositeKeys()));
        List<Object> defaults = new ArrayList<>();
        for (int parallelism : new int[] {1, 2, 10, 85, 86, 87, 128, 170, 171, 172, 341, 342, 1000, 21845, 21846, 30000, 32768}) {
            defaults.add(Json.object("parallelism", parallelism, "max_parallelism",
                    KeyGroupRangeAssignment.computeDefaultMaxParallelism(parallelism)));
        }
        vectors.document.put("default_max_parallelism", defaults);
        vectors.attempt("key group ranges", () -> vectors.document.put("key_group_ranges", ranges()));
        vectors.attempt("operator ids", () -> vectors.document.put("operator_ids", operatorIds()));
    }

    private static List<Object> compositeKeys() throws Exception {
        TypeSerializer<Object> none = Reflect.constant("org.apache.flink.runtime.state.VoidNamespaceSerializer", "INSTANCE");
        Object nothing = Reflect.constant("org.apache.flink.runtime.state.VoidNamespace", "INSTANCE");
        TypeSerializer<?> tuple = Vectors.serializer(Types.TUPLE(Types.LONG));
        TypeSerializer<?> row = Vectors.serializer(Types.ROW(Types.STRING, Types.INT));
        TypeSerializer<?> window = new TimeWindow.Serializer();
        List<Object> found = new ArrayList<>();
        for (int max : MAX_PARALLELISM) {
            add(found, "fixed, void", max, LONG, -7L, none, nothing, null, null);
            add(found, "tuple, void", max, tuple, Tuple1.of(7L), none, nothing, null, null);
            add(found, "variable, void", max, STRING, "é", none, nothing, null, null);
            add(found, "variable, window", max, STRING, "key", window, new TimeWindow(-1, 1000), null, null);
            add(found, "row, void", max, row, Row.of(null, 5), none, nothing, null, null);
            add(found, "fixed, variable", max, LONG, 1L, STRING, "namespace", null, null);
            add(found, "ambiguous", max, STRING, "ab", STRING, "n", null, null);
            add(found, "ambiguous, empty", max, STRING, "", STRING, "", null, null);
            add(found, "ambiguous map", max, STRING, "ab", STRING, "n", STRING, "user key");
            add(found, "map", max, STRING, "k", none, nothing, IntSerializer.INSTANCE, 1);
            add(found, "map of longs", max, LONG, 5L, window, new TimeWindow(0, 60_000), LONG, -1L);
        }
        for (int size : new int[] {126, 127, 128, 252, 253, 254, 255, 256, 257, 65533, 65534, 65536}) {
            // The serialized form is one to three bytes longer; 65,536 characters cross three-byte lengths.
            add(found, "ambiguous key of " + size, 128, STRING, Samples.repeat("x", size), STRING, "ns", null, null);
            add(found, "ambiguous namespace of " + size, 129, STRING, "k", STRING, Samples.repeat("y", size), STRING, "user");
        }
        return found;
    }

    private static void add(List<Object> found, String name, int max, TypeSerializer<?> keys, Object key,
            TypeSerializer<?> namespaces, Object namespace, TypeSerializer<?> userKeys, Object userKey) throws Exception {
        int prefix = max > 128 ? 2 : 1;
        int group = KeyGroupRangeAssignment.assignToKeyGroup(key, max);
        Object builder = Reflect.create(Reflect.exists(BUILDER) ? BUILDER : OLD_BUILDER, keys, prefix, 32);
        Reflect.call(builder, "setKeyAndKeyGroup", key, group);
        byte[] bytes = userKeys == null
                ? Reflect.call(builder, "buildCompositeKeyNamespace", namespace, namespaces)
                : Reflect.call(builder, "buildCompositeKeyNamesSpaceUserKey", namespace, namespaces, userKey, userKeys);
        Map<String, Object> entry = Json.object("name", name, "max_parallelism", max, "key_group", group,
                "key_serializer", Vectors.snapshot(keys), "namespace_serializer", Vectors.snapshot(namespaces));
        boolean isVoid = namespace.getClass().getSimpleName().equals("VoidNamespace");
        if (bytes.length < 1000) {
            entry.put("key", Encode.value(key));
            entry.put("namespace", isVoid ? null : Encode.value(namespace));
        } else {
            entry.put("key", abbreviated((String) key));
            entry.put("namespace", abbreviated((String) namespace));
        }
        if (userKeys != null) {
            entry.put("user_key_serializer", Vectors.snapshot(userKeys));
            entry.put("user_key", Encode.value(userKey));
        }
        entry.put("data", bytes.length < 1000 ? Vectors.hex(bytes) : abbreviated(bytes));
        found.add(entry);
    }

    /** A long run of one character, given as that character and how often it stands. */
    private static Object abbreviated(String text) {
        return text.length() < 1000 ? text : Json.object("repeat", text.substring(0, 1), "times", text.length());
    }

    /** Bytes with one long run: hex before it, the repeated byte, its count, hex behind it. */
    private static Object abbreviated(byte[] bytes) {
        int start = 0;
        while (bytes[start] != bytes[start + 1] || bytes[start] != bytes[start + 20]) {
            start++;
        }
        int end = start;
        while (bytes[end] == bytes[start]) {
            end++;
        }
        return Json.object(
                "before", Vectors.hex(java.util.Arrays.copyOfRange(bytes, 0, start)),
                "repeat", Vectors.hex(new byte[] {bytes[start]}),
                "times", end - start,
                "after", Vectors.hex(java.util.Arrays.copyOfRange(bytes, end, bytes.length)));
    }

    private static List<Object> ranges() {
        List<Object> ranges = new ArrayList<>();
        int[][] cases = {{128, 1}, {128, 2}, {128, 3}, {128, 7}, {128, 128}, {129, 4}, {1000, 7}, {32768, 11}};
        for (int[] one : cases) {
            for (int index : new int[] {0, one[1] / 2, one[1] - 1}) {
                org.apache.flink.runtime.state.KeyGroupRange range =
                        KeyGroupRangeAssignment.computeKeyGroupRangeForOperatorIndex(one[0], one[1], index);
                ranges.add(Json.object("max_parallelism", one[0], "parallelism", one[1], "subtask", index,
                        "first", range.getStartKeyGroup(), "last", range.getEndKeyGroup()));
            }
        }
        return ranges;
    }

    private static List<Object> operatorIds() throws Exception {
        List<Object> ids = new ArrayList<>();
        for (String uid : new String[] {"a", "my-op", "", "é€𝄞", "0123456789abcdef", "exactly-fifteen", "seventeen chars!!",
            Samples.repeat("long uid ", 30)}) {
            Object id = Reflect.exists("org.apache.flink.state.api.runtime.OperatorIDGenerator")
                    ? Reflect.callStatic("org.apache.flink.state.api.runtime.OperatorIDGenerator", "fromUid", uid)
                    : hash(uid);
            ids.add(Json.object("uid", uid, "id", id.toString()));
        }
        return ids;
    }

    /** The id through a job graph: an operator with this uid between a source and a sink. */
    private static Object hash(String uid) throws Exception {
        org.apache.flink.streaming.api.environment.StreamExecutionEnvironment env =
                org.apache.flink.streaming.api.environment.StreamExecutionEnvironment.createLocalEnvironment(1);
        Object source = Reflect.call(env, "fromElements", (Object) new Object[] {1L});
        Object operator = Reflect.call(source, "map", (org.apache.flink.api.common.functions.MapFunction<Long, Long>) value -> value);
        Object typed = Reflect.call(operator, "returns", Types.LONG);
        Reflect.call(typed, "uid", uid);
        Reflect.call(typed, "startNewChain");
        Reflect.call(typed, "print");
        Object graph = Reflect.call(Reflect.call(env, "getStreamGraph"), "getJobGraph");
        List<Object> vertices = new ArrayList<>();
        for (Object vertex : (Iterable<?>) Reflect.call(graph, "getVerticesSortedTopologicallyFromSources")) {
            vertices.add(Reflect.call(vertex, "getID"));
        }
        return vertices.get(1);
    }
}
