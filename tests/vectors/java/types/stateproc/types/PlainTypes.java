package stateproc.types;

import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import org.apache.flink.api.common.typeinfo.BasicArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.BasicTypeInfo;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.SqlTimeTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.java.tuple.Tuple0;
import org.apache.flink.api.java.typeutils.GenericTypeInfo;
import org.apache.flink.api.java.typeutils.TupleTypeInfo;
import org.apache.flink.api.java.typeutils.runtime.NullableSerializer;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.operators.TimerSerializer;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;

/** Types of the DataStream API, by the text that names them. */
final class PlainTypes {
    private PlainTypes() {}

    public enum Color {
        RED,
        GREEN,
        BLUE
    }

    public static class Base {
        public long id;
    }

    public static class Order extends Base {
        public String name;
        public Integer count;
        public double price;
        public Color color;
        public List<String> tags;
        public Map<String, Long> sums;
        public int[] sizes;
        public Integer[] boxes;
        public String[] words;
        public Instant at;
        public BigDecimal total;
        public LocalDate day;
        public UUID uuid;
        public Address address;
    }

    public static class Address {
        public String street;
        public short number;
        public List<String> near;
    }

    public static class Sets {
        public Set<Integer> numbers;
        public List<Address> places;
    }

    static void all() throws Exception {
        scalars();
        arrays();
        composites();
        runtime();
        Main.type("Extracted Order", TypeInformation.of(Order.class));
        Main.type("Extracted Sets", TypeInformation.of(Sets.class));
    }

    private static void scalars() throws Exception {
        Main.type("Boolean", Types.BOOLEAN);
        Main.type("Byte", Types.BYTE);
        Main.type("Short", Types.SHORT);
        Main.type("Integer", Types.INT);
        Main.type("Long", Types.LONG);
        Main.type("Float", Types.FLOAT);
        Main.type("Double", Types.DOUBLE);
        Main.type("Character", Types.CHAR);
        Main.type("String", Types.STRING);
        Main.type("Void", Types.VOID);
        Main.type("BigInteger", Types.BIG_INT);
        Main.type("BigDecimal", Types.BIG_DEC);
        Main.type("Instant", Types.INSTANT);
        Main.type("LocalDate", Types.LOCAL_DATE);
        Main.type("LocalTime", Types.LOCAL_TIME);
        Main.type("LocalDateTime", Types.LOCAL_DATE_TIME);
        Main.type("java.util.Date", BasicTypeInfo.DATE_TYPE_INFO);
        Main.type("java.sql.Date", SqlTimeTypeInfo.DATE);
        Main.type("java.sql.Time", SqlTimeTypeInfo.TIME);
        Main.type("java.sql.Timestamp", SqlTimeTypeInfo.TIMESTAMP);
    }

    private static void arrays() throws Exception {
        Main.type("boolean[]", PrimitiveArrayTypeInfo.BOOLEAN_PRIMITIVE_ARRAY_TYPE_INFO);
        Main.type("byte[]", PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO);
        Main.type("short[]", PrimitiveArrayTypeInfo.SHORT_PRIMITIVE_ARRAY_TYPE_INFO);
        Main.type("int[]", PrimitiveArrayTypeInfo.INT_PRIMITIVE_ARRAY_TYPE_INFO);
        Main.type("long[]", PrimitiveArrayTypeInfo.LONG_PRIMITIVE_ARRAY_TYPE_INFO);
        Main.type("float[]", PrimitiveArrayTypeInfo.FLOAT_PRIMITIVE_ARRAY_TYPE_INFO);
        Main.type("double[]", PrimitiveArrayTypeInfo.DOUBLE_PRIMITIVE_ARRAY_TYPE_INFO);
        Main.type("char[]", PrimitiveArrayTypeInfo.CHAR_PRIMITIVE_ARRAY_TYPE_INFO);
        Main.type("String[]", BasicArrayTypeInfo.STRING_ARRAY_TYPE_INFO);
        Main.type("Array<String>", Types.OBJECT_ARRAY(Types.STRING));
        Main.type("Long[]", BasicArrayTypeInfo.LONG_ARRAY_TYPE_INFO);
        Main.type("Integer[]", Types.OBJECT_ARRAY(Types.INT));
        Main.type("Character[][]", Types.OBJECT_ARRAY(BasicArrayTypeInfo.CHAR_ARRAY_TYPE_INFO));
        Main.type("byte[][]", Types.OBJECT_ARRAY(PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
        Main.type("String[][]", Types.OBJECT_ARRAY(BasicArrayTypeInfo.STRING_ARRAY_TYPE_INFO));
        Main.type("Tuple2<Long, String>[]", Types.OBJECT_ARRAY(Types.TUPLE(Types.LONG, Types.STRING)));
        Main.type("Row<Long>[]", Types.OBJECT_ARRAY(Types.ROW(Types.LONG)));
        Main.type("BigDecimal[]", Types.OBJECT_ARRAY(Types.BIG_DEC));
        Main.type("Instant[]", Types.OBJECT_ARRAY(Types.INSTANT));
    }

    private static void composites() throws Exception {
        Main.type("Tuple0", new TupleTypeInfo<>(Tuple0.class));
        Main.type("Tuple1<String>", Types.TUPLE(Types.STRING));
        Main.type("Tuple2<Long, String>", Types.TUPLE(Types.LONG, Types.STRING));
        Main.type(
                "Tuple<Long, Long, Long, Long, Long, Long, Long, Long, Long, Long, Long, Long, Long, Long, Long,"
                        + " Long, Long, Long, Long, Long, Long, Long, Long, Long, Long>",
                Types.TUPLE(java.util.Collections.nCopies(25, Types.LONG).toArray(new TypeInformation<?>[0])));
        Main.type("Row<>", Types.ROW());
        Main.type(
                "Row<Long, Row<String, byte[]>>",
                Types.ROW(
                        Types.LONG,
                        Types.ROW(Types.STRING, PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO)));
        Main.type("List<String>", Types.LIST(Types.STRING));
        Main.type("Map<String, List<Long>>", Types.MAP(Types.STRING, Types.LIST(Types.LONG)));
        Main.type("Either<String, Long>", Types.EITHER(Types.STRING, Types.LONG));
        Main.type("Enum stateproc.types.PlainTypes$Color {RED, GREEN, BLUE}", Types.ENUM(Color.class));
        Map<String, TypeInformation<?>> fields = new TreeMap<>();
        fields.put("street", Types.STRING);
        fields.put("number", Types.SHORT);
        fields.put("near", Types.LIST(Types.STRING));
        Main.type(
                "Pojo stateproc.types.PlainTypes$Address {street: String, number: short, near: List<String>}",
                Types.POJO(Address.class, fields));
        Main.type("Kryo java.util.UUID", new GenericTypeInfo<>(UUID.class));
        try {
            Class<?> set = Class.forName("org.apache.flink.api.java.typeutils.SetTypeInfo");
            Main.type(
                    "Set<String>",
                    (TypeInformation<?>) set.getConstructor(TypeInformation.class).newInstance(Types.STRING));
        } catch (ClassNotFoundException absent) {
            // Flink 1 has no sets.
        }
    }

    private static void runtime() throws Exception {
        Main.serializer("Long?", NullableSerializer.wrap(LongSerializer.INSTANCE, false));
        Main.serializer("Nullable padded Long", NullableSerializer.wrap(LongSerializer.INSTANCE, true));
        Main.serializer("Nullable<String>", NullableSerializer.wrap(StringSerializer.INSTANCE, true));
        Main.serializer("TimeWindow", new TimeWindow.Serializer());
        Main.serializer("GlobalWindow", new GlobalWindow.Serializer());
        Main.serializer("VoidNamespace", VoidNamespaceSerializer.INSTANCE);
        Main.serializer(
                "Timer<Long, VoidNamespace>",
                new TimerSerializer<>(LongSerializer.INSTANCE, VoidNamespaceSerializer.INSTANCE));
        Main.serializer(
                "Timer<String, TimeWindow>",
                new TimerSerializer<>(StringSerializer.INSTANCE, new TimeWindow.Serializer()));
    }
}
