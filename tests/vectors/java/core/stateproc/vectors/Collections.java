package stateproc.vectors;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.GenericArraySerializer;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.ListSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.MapSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.java.typeutils.runtime.NullableSerializer;

/** Lists, maps, sets and object arrays. */
final class Collections {
    private static final StringSerializer STRING = StringSerializer.INSTANCE;

    private Collections() {}

    static void write(Vectors vectors) throws Exception {
        vectors.add("List of String", new ListSerializer<>(STRING), new ArrayList<>(), Arrays.asList("a"),
                Arrays.asList(Samples.STRINGS), Arrays.asList("a", null));
        vectors.add("List of Long", new ListSerializer<>(LongSerializer.INSTANCE), Arrays.asList(Samples.LONGS));
        vectors.add("List of List of Int", new ListSerializer<>(new ListSerializer<>(IntSerializer.INSTANCE)),
                Arrays.asList(Arrays.asList(1, 2), new ArrayList<Integer>(), Arrays.asList(3)), new ArrayList<>());
        vectors.add("List of Nullable Int", new ListSerializer<>(NullableSerializer.wrap(IntSerializer.INSTANCE, true)),
                Arrays.asList(1, null, 3));
        Map<String, Long> map = new LinkedHashMap<>();
        vectors.add("Map of String to Long", new MapSerializer<>(STRING, LongSerializer.INSTANCE),
                new HashMap<>(map), filled(map), with(map, "none", null));
        Map<Integer, Object> nested = new LinkedHashMap<>();
        nested.put(1, new LinkedHashMap<>(map));
        nested.put(-1, null);
        vectors.add("Map of Int to Map", new MapSerializer<>(IntSerializer.INSTANCE,
                new MapSerializer<>(STRING, LongSerializer.INSTANCE)), nested);
        Map<String, List<Integer>> lists = new LinkedHashMap<>();
        lists.put("", new ArrayList<>());
        lists.put("é", Arrays.asList(1, 2, 3));
        vectors.add("Map of String to List", new MapSerializer<>(STRING, new ListSerializer<>(IntSerializer.INSTANCE)), lists);
        vectors.attempt("Set", () -> sets(vectors));
        vectors.add("GenericArray of String", new GenericArraySerializer<>(String.class, STRING),
                new String[0], new String[] {"a", null, "é"}, new String[] {null, null});
        TypeSerializer<?> inner = new GenericArraySerializer<>(Integer.class, IntSerializer.INSTANCE);
        vectors.add("GenericArray of Integer[]", (TypeSerializer<?>) Reflect.create(
                GenericArraySerializer.class.getName(), Integer[].class, inner),
                (Object) new Integer[][] {{1, null}, null, {}, {-1}});
    }

    private static Map<String, Long> filled(Map<String, Long> map) {
        map.put("a", 1L);
        map.put("", Long.MIN_VALUE);
        map.put("é", -1L);
        return new LinkedHashMap<>(map);
    }

    private static Map<String, Long> with(Map<String, Long> map, String key, Long value) {
        map.put(key, value);
        map.put("last", 2L);
        return new LinkedHashMap<>(map);
    }

    private static void sets(Vectors vectors) throws Exception {
        TypeSerializer<?> serializer =
                Reflect.create("org.apache.flink.api.common.typeutils.base.SetSerializer", STRING);
        vectors.add("Set of String", serializer, new LinkedHashSet<>(), new LinkedHashSet<>(Arrays.asList("b", "a", null, "é")));
        vectors.add("Set of Int", (TypeSerializer<?>) Reflect.create(serializer.getClass().getName(), IntSerializer.INSTANCE),
                new LinkedHashSet<>(Arrays.asList(1, null, -3)));
    }
}
