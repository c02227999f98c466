package stateproc.vectors;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.java.tuple.Tuple0;
import org.apache.flink.api.java.tuple.Tuple1;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.types.ByteValue;
import org.apache.flink.types.BooleanValue;
import org.apache.flink.types.CharValue;
import org.apache.flink.types.DoubleValue;
import org.apache.flink.types.FloatValue;
import org.apache.flink.types.IntValue;
import org.apache.flink.types.LongValue;
import org.apache.flink.types.NullValue;
import org.apache.flink.types.Row;
import org.apache.flink.types.ShortValue;
import org.apache.flink.types.StringValue;

/** hashCode() and key groups of every type that can be a key. */
final class Hashes {
    private Hashes() {}

    static void write(Vectors vectors) throws Exception {
        List<Object> found = new ArrayList<>();
        add(found, "Boolean", true, false);
        add(found, "Byte", (byte) 0, (byte) -1, Byte.MAX_VALUE, Byte.MIN_VALUE);
        add(found, "Short", (short) 0, (short) -3, Short.MAX_VALUE, Short.MIN_VALUE);
        add(found, "Character", 'a', '\0', '€', '\uFFFF');
        add(found, "Integer", Samples.INTS);
        add(found, "Long", Samples.LONGS);
        add(found, "Float", Samples.FLOATS);
        add(found, "Double", Samples.DOUBLES);
        add(found, "String", Samples.STRINGS);
        add(found, "BigInteger", Samples.BIG_INTEGERS);
        for (Object integer : Samples.BIG_INTEGERS) {
            for (int scale : new int[] {0, 2, -3}) {
                add(found, "BigDecimal", new BigDecimal((BigInteger) integer, scale));
            }
        }
        for (long millis : new long[] {0, 1, -1, 1_600_000_000_123L, -62_135_596_800_000L}) {
            java.sql.Timestamp stamp = new java.sql.Timestamp(millis);
            stamp.setNanos(123_456_789);
            add(found, "java.util.Date", new java.util.Date(millis));
            add(found, "java.sql.Date", new java.sql.Date(millis));
            add(found, "java.sql.Time", new java.sql.Time(millis));
            add(found, "java.sql.Timestamp", new java.sql.Timestamp(millis), stamp);
            add(found, "Instant", Instant.ofEpochMilli(millis), Instant.ofEpochMilli(millis).plusNanos(999_999));
        }
        add(found, "LocalDate", LocalDate.EPOCH, LocalDate.of(2024, 2, 29), LocalDate.of(-5, 12, 31), LocalDate.MAX, LocalDate.MIN);
        add(found, "LocalTime", LocalTime.MIDNIGHT, LocalTime.MAX, LocalTime.of(10, 15), LocalTime.of(1, 2, 3, 4));
        add(found, "LocalDateTime", LocalDateTime.of(2024, 2, 29, 1, 2, 3, 4), LocalDateTime.of(-5, 1, 1, 23, 59), LocalDateTime.MAX);
        tuples(found);
        rows(found);
        values(found);
        vectors.document.put("hashes", found);
    }

    private static void tuples(List<Object> found) throws Exception {
        add(found, "Tuple", Tuple0.INSTANCE, Tuple1.of(7L), Tuple2.of("x", 3), Tuple2.of(null, 3), Tuple2.of("x", null),
                Tuple3.of(1, 2L, -1.5), Tuple2.of(Tuple2.of("a", 1), Tuple1.of(-1L)), Tuple1.of((Object) null),
                Tuple2.of(Tuple1.of((Object) null), new BigDecimal("1.50")), Tuple2.of(Row.of("a", null), true));
    }

    private static void rows(List<Object> found) throws Exception {
        List<Object> rows = new ArrayList<>(Arrays.asList(new Row(0), Row.of("a", 1), Row.of((Object) null), Row.of(null, null),
                Row.of(Row.of(1, 2L), null), Row.of(Tuple2.of("x", 1), "y"), Row.of(Row.of(Row.of("deep"))),
                Row.of(1.5, -0.0, 1.5f, true, 'c', (byte) -1, (short) -2, Long.MIN_VALUE),
                Row.of(new BigDecimal("1.50"), BigInteger.TEN, LocalDate.EPOCH, Instant.EPOCH, new java.sql.Timestamp(5))));
        addRow(found, "Row", rows);
        List<Object> arrays = new ArrayList<>(Arrays.asList(Row.of((Object) new byte[] {1, -1}), Row.of((Object) new byte[0]),
                Row.of((Object) new int[] {1, -1}), Row.of((Object) new long[] {1L << 40}), Row.of((Object) new double[] {1.5}),
                Row.of((Object) new String[] {"a", null}), Row.of((Object) new Object[] {Row.of(1), 2L, null}),
                Row.of(Arrays.asList("a", null, 1)), Row.of(java.util.Collections.singletonMap("k", 1)),
                Row.of(new java.util.TreeMap<>(Map.of("a", 1, "b", 2)))));
        addRow(found, "Row of collections", arrays);
        try {
            List<Object> kinds = new ArrayList<>();
            for (Object kind : Class.forName("org.apache.flink.types.RowKind").getEnumConstants()) {
                Row row = Row.of(7);
                Reflect.call(row, "setKind", kind);
                kinds.add(row);
            }
            addRow(found, "Row kinds", kinds);
        } catch (ClassNotFoundException before111) {
            System.err.println("left out: Row kinds");
        }
    }

    private static void addRow(List<Object> found, String type, List<Object> rows) throws Exception {
        for (Object row : rows) {
            add(found, type, row);
        }
    }

    private static void values(List<Object> found) throws Exception {
        for (Object value : new Object[] {0L, 1L, -1L, 1L << 40, Long.MIN_VALUE}) {
            addTree(found, "LongValue", value, new LongValue((Long) value));
        }
        for (Object value : new Object[] {0, 1, -1, Integer.MIN_VALUE}) {
            addTree(found, "IntValue", value, new IntValue((Integer) value));
        }
        for (Object value : new Object[] {0.0, -0.0, 1.5, Double.NaN}) {
            addTree(found, "DoubleValue", Encode.value(value), new DoubleValue((Double) value));
            addTree(found, "FloatValue", Encode.value(value), new FloatValue(((Double) value).floatValue()));
        }
        for (Object value : new Object[] {"", "a", "é€𝄞", "long enough for several rounds"}) {
            addTree(found, "StringValue", value, new StringValue((String) value));
        }
        addTree(found, "BooleanValue", true, new BooleanValue(true));
        addTree(found, "BooleanValue", false, new BooleanValue(false));
        addTree(found, "ByteValue", (byte) -5, new ByteValue((byte) -5));
        addTree(found, "ShortValue", (short) -5, new ShortValue((short) -5));
        addTree(found, "CharValue", "x", new CharValue('x'));
        addTree(found, "NullValue", null, NullValue.getInstance());
    }

    private static void add(List<Object> found, String type, Object... keys) throws Exception {
        for (Object key : keys) {
            addTree(found, type, Encode.value(key), key);
        }
    }

    /** One key with its JSON form; also used for the keys of SQL jobs. */
    static void addTree(List<Object> found, String type, Object tree, Object key) {
        Map<String, Object> groups = Json.object();
        for (int max : new int[] {128, 1000, 32768}) {
            groups.put(Integer.toString(max), KeyGroupRangeAssignment.assignToKeyGroup(key, max));
        }
        found.add(Json.object("type", type, "value", tree, "java_class", key.getClass().getName(),
                "hash", key.hashCode(), "key_groups", groups));
    }
}
