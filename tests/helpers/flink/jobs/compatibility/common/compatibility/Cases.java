package compatibility;

import java.lang.reflect.Constructor;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import org.apache.flink.api.common.typeinfo.BasicArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.BasicTypeInfo;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.SqlTimeTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.ListSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.api.java.typeutils.TypeExtractor;
import org.apache.flink.api.java.typeutils.runtime.NullableSerializer;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.runtime.state.VoidNamespaceSerializer;
import org.apache.flink.streaming.api.operators.TimerHeapInternalTimer;
import org.apache.flink.streaming.api.operators.TimerSerializer;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.types.Either;
import org.apache.flink.types.LongValue;
import org.apache.flink.types.Row;
import org.apache.flink.types.StringValue;

/** All cases. Those of classes are named after them. */
final class Cases {
    private final List<Case> cases = new ArrayList<>();

    private Cases() {}

    static List<Case> all() throws Exception {
        Cases all = new Cases();
        all.scalars();
        all.composites();
        all.changes();
        all.kryo();
        all.classes(compatibility.Types.class);
        all.classes(Evolving.class);
        all.subclasses();
        all.timeToLive();
        SqlCases.add(all.cases);
        try {
            Class.forName("org.apache.avro.Schema");
            AvroCases.add(all.cases);
        } catch (ClassNotFoundException without) {
            System.err.println("without Avro");
        }
        ScalaCases.add(all.cases);
        return all.cases;
    }

    private void same(String group, String name, Callable<?> type, Callable<?> value) {
        pair(group, name, type, type, value);
    }

    private void pair(String group, String name, Callable<?> old, Callable<?> own, Callable<?> value) {
        cases.add(new Case(group, name, false, old, own, value));
    }

    private void scalars() {
        same("basic", "Long", () -> Types.LONG, () -> 5L);
        same("basic", "Integer", () -> Types.INT, () -> 5);
        same("basic", "Short", () -> Types.SHORT, () -> (short) 5);
        same("basic", "Byte", () -> Types.BYTE, () -> (byte) 5);
        same("basic", "Double", () -> Types.DOUBLE, () -> 5.5);
        same("basic", "Float", () -> Types.FLOAT, () -> 5.5f);
        same("basic", "Boolean", () -> Types.BOOLEAN, () -> true);
        same("basic", "Character", () -> Types.CHAR, () -> 'c');
        same("basic", "String", () -> Types.STRING, () -> "é");
        same("basic", "BigDecimal", () -> Types.BIG_DEC, () -> new BigDecimal("1.5"));
        same("basic", "BigInteger", () -> Types.BIG_INT, () -> java.math.BigInteger.TEN.pow(9));
        same("time", "LocalDate", () -> Types.LOCAL_DATE, () -> Samples.of(java.time.LocalDate.class));
        same("time", "LocalTime", () -> Types.LOCAL_TIME, () -> Samples.of(java.time.LocalTime.class));
        same("time", "LocalDateTime", () -> Types.LOCAL_DATE_TIME, () -> Samples.of(java.time.LocalDateTime.class));
        same("time", "Instant", () -> Types.INSTANT, () -> Samples.of(java.time.Instant.class));
        same("time", "java.util.Date", () -> BasicTypeInfo.DATE_TYPE_INFO, () -> Samples.of(java.util.Date.class));
        same("time", "java.sql.Timestamp", () -> SqlTimeTypeInfo.TIMESTAMP, () -> Samples.of(java.sql.Timestamp.class));
        same("time", "java.sql.Date", () -> SqlTimeTypeInfo.DATE, () -> new java.sql.Date(86400000L));
        same("time", "java.sql.Time", () -> SqlTimeTypeInfo.TIME, () -> new java.sql.Time(5000));
        same("array", "byte[]", () -> PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO, () -> new byte[] {1, 2});
        same("array", "int[]", () -> PrimitiveArrayTypeInfo.INT_PRIMITIVE_ARRAY_TYPE_INFO, () -> new int[] {1, 2});
        same("array", "double[]", () -> PrimitiveArrayTypeInfo.DOUBLE_PRIMITIVE_ARRAY_TYPE_INFO, () -> new double[] {1});
        same("array", "String[]", () -> BasicArrayTypeInfo.STRING_ARRAY_TYPE_INFO, () -> new String[] {"a", null});
        same("array", "Long[]", () -> BasicArrayTypeInfo.LONG_ARRAY_TYPE_INFO, () -> new Long[] {1L, 2L});
        same("array", "Addr[]", () -> Types.OBJECT_ARRAY(addr()), () -> Samples.of(compatibility.Types.Addr[].class));
    }

    private void composites() {
        same("composite", "Tuple2<String,Integer>", () -> Types.TUPLE(Types.STRING, Types.INT), () -> Tuple2.of("a", 1));
        same(
                "composite",
                "Tuple3 nested",
                () -> Types.TUPLE(Types.TUPLE(Types.STRING, Types.INT), Types.LIST(Types.LONG), Types.BIG_DEC),
                () -> Tuple3.of(Tuple2.of("a", 1), list(1L), BigDecimal.ONE));
        same("composite", "Row(String,Long)", () -> Types.ROW(Types.STRING, Types.LONG), () -> Row.of("a", null));
        same("composite", "Row named", () -> named("x", "y"), () -> Row.of("a", 2L));
        same("composite", "Either<String,Long>", () -> Types.EITHER(Types.STRING, Types.LONG), () -> Either.Left("l"));
        same("composite", "List<String>", () -> Types.LIST(Types.STRING), () -> list("a"));
        same("composite", "Map<String,Long>", () -> Types.MAP(Types.STRING, Types.LONG), () -> map("k", null));
        same("composite", "Set<String>", () -> set(Types.STRING), () -> new HashSet<>(list("a")));
        same("composite", "Enum", () -> Types.ENUM(compatibility.Types.Color.class), () -> compatibility.Types.Color.GREEN);
        same("composite", "StringValue", () -> Types.VALUE(StringValue.class), () -> new StringValue("v"));
        same("composite", "LongValue", () -> Types.VALUE(LongValue.class), () -> new LongValue(4));
        same("composite", "nullable Integer", () -> NullableSerializer.wrap(IntSerializer.INSTANCE, false), () -> null);
        same("composite", "padded nullable Integer", () -> NullableSerializer.wrap(IntSerializer.INSTANCE, true), () -> null);
        same("composite", "TimeWindow", () -> new TimeWindow.Serializer(), () -> new TimeWindow(1, 2));
        same("composite", "GlobalWindow", () -> new GlobalWindow.Serializer(), () -> GlobalWindow.get());
        same("composite", "VoidNamespace", () -> VoidNamespaceSerializer.INSTANCE, () -> VoidNamespace.get());
        same("composite", "timer", () -> timer(StringSerializer.INSTANCE), () -> timerOf("k"));
        pair("type change", "timer, key String → Long", () -> timer(StringSerializer.INSTANCE), () -> timer(LongSerializer.INSTANCE), () -> timerOf("k"));
    }

    private void changes() {
        String group = "type change";
        pair(group, "Integer → Long", () -> Types.INT, () -> Types.LONG, () -> 5);
        pair(group, "Long → Integer", () -> Types.LONG, () -> Types.INT, () -> 5L);
        pair(group, "Long → String", () -> Types.LONG, () -> Types.STRING, () -> 5L);
        pair(group, "Float → Double", () -> Types.FLOAT, () -> Types.DOUBLE, () -> 5f);
        pair(group, "Double → BigDecimal", () -> Types.DOUBLE, () -> Types.BIG_DEC, () -> 5d);
        pair(group, "String → Enum", () -> Types.STRING, () -> Types.ENUM(compatibility.Types.Color.class), () -> "RED");
        pair(group, "Integer → nullable Integer", () -> Types.INT, () -> NullableSerializer.wrap(IntSerializer.INSTANCE, false), () -> 5);
        pair(group, "nullable Integer → Integer", () -> NullableSerializer.wrap(IntSerializer.INSTANCE, false), () -> Types.INT, () -> 5);
        pair(group, "nullable → padded nullable", () -> NullableSerializer.wrap(IntSerializer.INSTANCE, false), () -> NullableSerializer.wrap(IntSerializer.INSTANCE, true), () -> 5);
        pair(group, "LocalDate → Instant", () -> Types.LOCAL_DATE, () -> Types.INSTANT, () -> Samples.of(java.time.LocalDate.class));
        pair(group, "java.util.Date → java.sql.Date", () -> BasicTypeInfo.DATE_TYPE_INFO, () -> SqlTimeTypeInfo.DATE, () -> Samples.of(java.util.Date.class));
        pair(group, "Tuple2 → Tuple3 (arity)", () -> Types.TUPLE(Types.STRING, Types.INT), () -> Types.TUPLE(Types.STRING, Types.INT, Types.LONG), () -> Tuple2.of("a", 1));
        pair(group, "Tuple2<String,Integer> → Tuple2<String,Long>", () -> Types.TUPLE(Types.STRING, Types.INT), () -> Types.TUPLE(Types.STRING, Types.LONG), () -> Tuple2.of("a", 1));
        pair(group, "Tuple2<String,Integer> → Tuple2<Integer,String>", () -> Types.TUPLE(Types.STRING, Types.INT), () -> Types.TUPLE(Types.INT, Types.STRING), () -> Tuple2.of("a", 1));
        pair(group, "Tuple2 → Row", () -> Types.TUPLE(Types.STRING, Types.INT), () -> Types.ROW(Types.STRING, Types.INT), () -> Tuple2.of("a", 1));
        same(group, "Tuple2<String,POJO EAdded>", () -> Types.TUPLE(Types.STRING, added()), () -> Tuple2.of("a", Samples.of(Evolving.EAdded.class)));
        same(group, "Row(String,POJO EAdded)", () -> Types.ROW(Types.STRING, added()), () -> Row.of("a", Samples.of(Evolving.EAdded.class)));
        same(group, "Either<String,POJO EAdded>", () -> Types.EITHER(Types.STRING, added()), () -> Either.Right(Samples.of(Evolving.EAdded.class)));
        same(group, "nullable POJO EAdded", () -> NullableSerializer.wrap(Case.serializer(added()), false), () -> Samples.of(Evolving.EAdded.class));
        same(group, "EAdded[]", () -> Types.OBJECT_ARRAY(added()), () -> Samples.of(Evolving.EAdded[].class));
        pair(group, "Row field added", () -> Types.ROW(Types.STRING, Types.LONG), () -> Types.ROW(Types.STRING, Types.LONG, Types.INT), () -> Row.of("a", 2L));
        pair(group, "Row field removed", () -> Types.ROW(Types.STRING, Types.LONG, Types.INT), () -> Types.ROW(Types.STRING, Types.LONG), () -> Row.of("a", 2L, 3));
        pair(group, "Row field type Integer → Long", () -> Types.ROW(Types.STRING, Types.INT), () -> Types.ROW(Types.STRING, Types.LONG), () -> Row.of("a", 2));
        pair(group, "Row named → names changed", () -> named("x", "y"), () -> named("x", "z"), () -> Row.of("a", 2L));
        pair(group, "Row named → fields of one type swapped", () -> Types.ROW_NAMED(new String[] {"x", "y"}, Types.LONG, Types.LONG), () -> Types.ROW_NAMED(new String[] {"y", "x"}, Types.LONG, Types.LONG), () -> Row.of(1L, 2L));
        pair(group, "List<Integer> → List<Long>", () -> Types.LIST(Types.INT), () -> Types.LIST(Types.LONG), () -> list(1));
        pair(group, "List<String> → Set<String>", () -> Types.LIST(Types.STRING), () -> set(Types.STRING), () -> list("a"));
        pair(group, "List<String> → Map<String,Long>", () -> Types.LIST(Types.STRING), () -> Types.MAP(Types.STRING, Types.LONG), () -> list("a"));
        same(group, "List<POJO EAdded>", () -> Types.LIST(added()), () -> list(Samples.of(Evolving.EAdded.class)));
        same(group, "Map<String,POJO EAdded>", () -> Types.MAP(Types.STRING, added()), () -> map("k", Samples.of(Evolving.EAdded.class)));
        same(group, "Map<Enum CAppend,Long>", () -> Types.MAP(Types.ENUM(Evolving.CAppend.class), Types.LONG), () -> map(Evolving.CAppend.B, 3L));
        same(group, "Tuple2<Enum CReorder,POJO EAdded>", () -> Types.TUPLE(Types.ENUM(Evolving.CReorder.class), added()), () -> Tuple2.of(Evolving.CReorder.B, Samples.of(Evolving.EAdded.class)));
        pair(group, "Map<String,Integer> → Map<String,Long>", () -> Types.MAP(Types.STRING, Types.INT), () -> Types.MAP(Types.STRING, Types.LONG), () -> map("k", 1));
        pair(group, "Map<Integer,Long> → Map<Long,Long>", () -> Types.MAP(Types.INT, Types.LONG), () -> Types.MAP(Types.LONG, Types.LONG), () -> map(1, 1L));
        pair(group, "Either<String,Integer> → Either<String,Long>", () -> Types.EITHER(Types.STRING, Types.INT), () -> Types.EITHER(Types.STRING, Types.LONG), () -> Either.Right(3));
        pair(group, "String[] → List<String>", () -> BasicArrayTypeInfo.STRING_ARRAY_TYPE_INFO, () -> Types.LIST(Types.STRING), () -> new String[] {"a"});
        pair(group, "int[] → long[]", () -> PrimitiveArrayTypeInfo.INT_PRIMITIVE_ARRAY_TYPE_INFO, () -> PrimitiveArrayTypeInfo.LONG_PRIMITIVE_ARRAY_TYPE_INFO, () -> new int[] {1});
        pair(group, "Long[] → Integer[]", () -> BasicArrayTypeInfo.LONG_ARRAY_TYPE_INFO, () -> BasicArrayTypeInfo.INT_ARRAY_TYPE_INFO, () -> new Long[] {1L});
        pair(group, "TimeWindow → GlobalWindow", () -> new TimeWindow.Serializer(), () -> new GlobalWindow.Serializer(), () -> new TimeWindow(1, 2));
        pair(group, "POJO PFlat → POJO Addr", () -> Types.POJO(compatibility.Types.PFlat.class), Cases::addr, () -> Samples.of(compatibility.Types.PFlat.class));
        pair(group, "POJO Addr → Tuple2<String,Integer>", Cases::addr, () -> Types.TUPLE(Types.STRING, Types.INT), () -> Samples.of(compatibility.Types.Addr.class));
        pair(group, "Enum Color → Enum CAppend", () -> Types.ENUM(compatibility.Types.Color.class), () -> Types.ENUM(Evolving.CAppend.class), () -> compatibility.Types.Color.GREEN);
    }

    private void kryo() throws Exception {
        String group = "kryo";
        pair(group, "Set<String>: generic → Types.SET", () -> Types.GENERIC(Set.class), () -> set(Types.STRING), () -> new HashSet<>(list("a")));
        pair(group, "List: generic → Types.LIST", () -> Types.GENERIC(List.class), () -> Types.LIST(Types.STRING), () -> list("a"));
        pair(group, "Map: generic → Types.MAP", () -> Types.GENERIC(Map.class), () -> Types.MAP(Types.STRING, Types.LONG), () -> map("k", 3L));
        pair(group, "Types.LIST → generic List", () -> Types.LIST(Types.STRING), () -> Types.GENERIC(List.class), () -> list("a"));
        generic("HashMap", HashMap.class, () -> map("k", 4L));
        generic("empty HashMap", HashMap.class, () -> new HashMap<>());
        generic("LinkedHashMap", LinkedHashMap.class, () -> new LinkedHashMap<>(map("k", 4L)));
        generic("TreeMap", TreeMap.class, () -> new TreeMap<>(map("k", 4L)));
        generic("ArrayList", ArrayList.class, () -> list("a", 2));
        generic("empty ArrayList", ArrayList.class, () -> new ArrayList<>());
        generic("ArrayList of Long", ArrayList.class, () -> list(1L, 2L, 3L));
        generic("LinkedList", LinkedList.class, () -> new LinkedList<>(list("a", "b")));
        generic("HashSet", HashSet.class, () -> new HashSet<>(list("a")));
        generic("LinkedHashSet", LinkedHashSet.class, () -> new LinkedHashSet<>(list("a")));
        generic("TreeSet", TreeSet.class, () -> new TreeSet<>(list("a")));
        generic("Arrays.asList", List.class, () -> Arrays.asList("a"));
        generic("Collections.singletonList", List.class, () -> Collections.singletonList("a"));
        generic("Collections.emptyList", List.class, () -> Collections.emptyList());
        generic("Collections.emptyMap", Map.class, () -> Collections.emptyMap());
        generic("ArrayDeque", java.util.ArrayDeque.class, () -> new java.util.ArrayDeque<>(list("a")));
        generic("PriorityQueue", java.util.PriorityQueue.class, () -> new java.util.PriorityQueue<>(list("a")));
        generic("ConcurrentHashMap", java.util.concurrent.ConcurrentHashMap.class, () -> new java.util.concurrent.ConcurrentHashMap<>(map("k", 3L)));
        generic("BitSet", java.util.BitSet.class, () -> java.util.BitSet.valueOf(new long[] {5}));
        generic("UUID", java.util.UUID.class, () -> Samples.of(java.util.UUID.class));
        generic("Optional", Optional.class, () -> Optional.of("text"));
        generic("Object", Object.class, () -> "text");
        generic("Object with Integer", Object.class, () -> 3);
        generic("Object with Double", Object.class, () -> 3.5);
        generic("Object with Gen", Object.class, () -> Samples.of(compatibility.Types.Gen.class));
        generic("Object with Color", Object.class, () -> compatibility.Types.Color.GREEN);
        generic("Number", Number.class, () -> 3L);
        generic("Addr (POJO class)", compatibility.Types.Addr.class, () -> Samples.of(compatibility.Types.Addr.class));
        for (Class<?> time : new Class<?>[] {java.time.ZonedDateTime.class, java.time.LocalDate.class, java.time.LocalTime.class, java.time.LocalDateTime.class, java.time.Instant.class, java.time.Duration.class}) {
            generic(time.getSimpleName(), time, () -> Samples.of(time));
        }
        generic("OffsetDateTime", java.time.OffsetDateTime.class, () -> java.time.OffsetDateTime.parse("2020-01-02T03:04:05+01:00"));
        generic("Period", java.time.Period.class, () -> java.time.Period.ofDays(3));
        generic("Year", java.time.Year.class, () -> java.time.Year.of(2020));
        generic("YearMonth", java.time.YearMonth.class, () -> java.time.YearMonth.of(2020, 3));
        generic("ZoneOffset", java.time.ZoneOffset.class, () -> java.time.ZoneOffset.ofHours(1));
        generic("DayOfWeek", java.time.DayOfWeek.class, () -> java.time.DayOfWeek.FRIDAY);
        generic("Date", java.util.Date.class, () -> Samples.of(java.util.Date.class));
        generic("Timestamp", java.sql.Timestamp.class, () -> Samples.of(java.sql.Timestamp.class));
        generic("BigDecimal", BigDecimal.class, () -> Samples.of(BigDecimal.class));
        generic("BigInteger", java.math.BigInteger.class, () -> Samples.of(java.math.BigInteger.class));
        generic("Locale", java.util.Locale.class, () -> java.util.Locale.GERMANY);
        generic("Currency", java.util.Currency.class, () -> java.util.Currency.getInstance("EUR"));
        generic("URI", java.net.URI.class, () -> java.net.URI.create("http://host/path"));
        generic("Class", Class.class, () -> String.class);
        generic("StringBuilder", StringBuilder.class, () -> new StringBuilder("text"));
        generic("AtomicLong", java.util.concurrent.atomic.AtomicLong.class, () -> new java.util.concurrent.atomic.AtomicLong(3));
        generic("AtomicInteger", java.util.concurrent.atomic.AtomicInteger.class, () -> new java.util.concurrent.atomic.AtomicInteger(3));
        generic("AtomicBoolean", java.util.concurrent.atomic.AtomicBoolean.class, () -> new java.util.concurrent.atomic.AtomicBoolean(true));
        generic("String", String.class, () -> "tée");
        generic("Long", Long.class, () -> 70000L);
        generic("Double", Double.class, () -> 2.5);
        generic("int[]", int[].class, () -> new int[] {1, 300, -2});
        generic("long[]", long[].class, () -> new long[] {1, 300000, -2});
        generic("double[]", double[].class, () -> new double[] {1.5});
        generic("byte[]", byte[].class, () -> new byte[] {1, 2});
        generic("String[]", String[].class, () -> new String[] {"a", null});
        generic("Object[]", Object[].class, () -> new Object[] {"a", 3});
        generic("boolean[]", boolean[].class, () -> new boolean[] {true, false});
        generic("short[]", short[].class, () -> new short[] {300});
        generic("char[]", char[].class, () -> new char[] {'c'});
        generic("float[]", float[].class, () -> new float[] {1.5f});
        generic("Addr[]", compatibility.Types.Addr[].class, () -> Samples.of(compatibility.Types.Addr[].class));
        generic("Color[]", compatibility.Types.Color[].class, () -> Samples.of(compatibility.Types.Color[].class));
        generic("Boolean", Boolean.class, () -> true);
        generic("Integer", Integer.class, () -> 300);
        generic("Float", Float.class, () -> 1.5f);
        generic("Short", Short.class, () -> (short) 300);
        generic("Character", Character.class, () -> 'c');
        generic("Byte", Byte.class, () -> (byte) 3);
        generic("StringBuffer", StringBuffer.class, () -> new StringBuffer("text"));
        generic("java.sql.Date", java.sql.Date.class, () -> new java.sql.Date(86400000L));
        generic("java.sql.Time", java.sql.Time.class, () -> new java.sql.Time(5000));
        generic("URL", java.net.URL.class, () -> new java.net.URL("http://host/path"));
        generic("EnumSet", java.util.EnumSet.class, () -> java.util.EnumSet.of(compatibility.Types.Color.GREEN));
        generic("EnumMap", java.util.EnumMap.class, () -> new java.util.EnumMap<>(Collections.singletonMap(compatibility.Types.Color.GREEN, 3L)));
        generic("Collections.singleton", Set.class, () -> Collections.singleton("a"));
        generic("Collections.singletonMap", Map.class, () -> Collections.singletonMap("k", 3L));
        generic("Collections.emptySet", Set.class, () -> Collections.emptySet());
        generic("Vector", java.util.Vector.class, () -> new java.util.Vector<>(list("a")));
        generic("TimeZone", java.util.TimeZone.class, () -> java.util.TimeZone.getTimeZone("UTC"));
        generic("ByteBuffer", java.nio.ByteBuffer.class, () -> java.nio.ByteBuffer.wrap(new byte[] {1, 2}));
        generic("Pattern", java.util.regex.Pattern.class, () -> java.util.regex.Pattern.compile("a+"));
        generic("Color (enum)", compatibility.Types.Color.class, () -> compatibility.Types.Color.GREEN);
        generic("Optional of Double", Optional.class, () -> Optional.of(2.5));
        generic("Row", Row.class, () -> Row.of(1, "a"));
        generic("Tuple2", Tuple2.class, () -> Tuple2.of("a", 1));
        pair(group, "generic → POJO of one class", () -> Types.GENERIC(compatibility.Types.Addr.class), Cases::addr, () -> Samples.of(compatibility.Types.Addr.class));
        pair(group, "POJO → generic of one class", Cases::addr, () -> Types.GENERIC(compatibility.Types.Addr.class), () -> Samples.of(compatibility.Types.Addr.class));
        pair(group, "generic Gen → generic GenLong", Cases::gen, () -> Types.GENERIC(compatibility.Types.GenLong.class), () -> Samples.of(compatibility.Types.Gen.class));
        pair(group, "generic HashMap → generic Map", () -> Types.GENERIC(HashMap.class), () -> Types.GENERIC(Map.class), () -> map("k", 3L));
        same(group, "List<generic Gen>", () -> Types.LIST(gen()), () -> list(Samples.of(compatibility.Types.Gen.class)));
        same(group, "List<generic UUID>", () -> Types.LIST(Types.GENERIC(java.util.UUID.class)), () -> list(new java.util.UUID(1L << 40, 1L << 50), new java.util.UUID(3, 4)));
        same(group, "Map<String,generic Gen>", () -> Types.MAP(Types.STRING, gen()), () -> map("k", Samples.of(compatibility.Types.Gen.class)));
        same(group, "Tuple2<String,generic Gen>", () -> Types.TUPLE(Types.STRING, gen()), () -> Tuple2.of("a", Samples.of(compatibility.Types.Gen.class)));
        same(group, "Row(String,generic Gen)", () -> Types.ROW(Types.STRING, gen()), () -> Row.of("a", Samples.of(compatibility.Types.Gen.class)));
        same(group, "nullable generic Gen", () -> NullableSerializer.wrap(Case.serializer(gen()), false), () -> Samples.of(compatibility.Types.Gen.class));
    }

    private void generic(String name, Class<?> type, Callable<?> value) {
        same("kryo", "generic " + name, () -> Types.GENERIC(type), value);
    }

    /** One case per class; the same class may be another kind of type in the other job. */
    private void classes(Class<?> enclosing) {
        Class<?>[] classes = enclosing.getDeclaredClasses();
        Arrays.sort(classes, Comparator.comparing(Class::getSimpleName));
        String kind = enclosing == Evolving.class ? "evolution" : "POJO";
        for (Class<?> type : classes) {
            String name = type.getSimpleName();
            String group = type.isEnum() ? "enum" : name.startsWith("Gen") ? "kryo" : kind;
            same(group, name, () -> TypeExtractor.createTypeInfo(type), () -> Samples.of(type));
        }
    }

    private void subclasses() {
        for (String name : new String[] {"Sub", "SubGrown", "SubGone"}) {
            same("evolution", "Base with value of subclass " + name, () -> TypeExtractor.createTypeInfo(Evolving.Base.class), () -> Samples.of(Class.forName("compatibility.Evolving$" + name)));
        }
        pair("evolution", "Gone (class removed) → Addr", () -> TypeExtractor.createTypeInfo(Class.forName("compatibility.Evolving$Gone")), Cases::addr, () -> Samples.of(Class.forName("compatibility.Evolving$Gone")));
        pair("kryo", "generic Gone (class removed) → Addr", () -> Types.GENERIC(Class.forName("compatibility.Evolving$Gone")), Cases::addr, () -> Samples.of(Class.forName("compatibility.Evolving$Gone")));
    }

    private void timeToLive() {
        String group = "time to live";
        Callable<?> value = () -> ttlValue(5L);
        pair(group, "Long → TtlValue<Long>", () -> LongSerializer.INSTANCE, () -> ttl(LongSerializer.INSTANCE), () -> 5L);
        pair(group, "TtlValue<Long> → Long", () -> ttl(LongSerializer.INSTANCE), () -> LongSerializer.INSTANCE, value);
        pair(group, "TtlValue<Long> → TtlValue<Long>", () -> ttl(LongSerializer.INSTANCE), () -> ttl(LongSerializer.INSTANCE), value);
        pair(group, "TtlValue<Long> → TtlValue<String>", () -> ttl(LongSerializer.INSTANCE), () -> ttl(StringSerializer.INSTANCE), value);
        pair(group, "TtlValue<POJO EAdded>", () -> ttl(Case.serializer(added())), () -> ttl(Case.serializer(added())), () -> ttlValue(Samples.of(Evolving.EAdded.class)));
        wrapped("backend: Long → TtlValue<Long>", () -> LongSerializer.INSTANCE, () -> ttl(LongSerializer.INSTANCE), () -> 5L);
        wrapped("backend: TtlValue<Long> → Long", () -> ttl(LongSerializer.INSTANCE), () -> LongSerializer.INSTANCE, value);
        wrapped("backend: TtlValue<Long> → TtlValue<Long>", () -> ttl(LongSerializer.INSTANCE), () -> ttl(LongSerializer.INSTANCE), value);
        wrapped("backend: Long → TtlValue<String>", () -> LongSerializer.INSTANCE, () -> ttl(StringSerializer.INSTANCE), () -> 5L);
        wrapped("backend: TtlValue<Long> → String", () -> ttl(LongSerializer.INSTANCE), () -> StringSerializer.INSTANCE, value);
        wrapped("backend: EAdded → TtlValue<EAdded>", () -> Case.serializer(added()), () -> ttl(Case.serializer(added())), () -> Samples.of(Evolving.EAdded.class));
        wrapped("backend: TtlValue<EAdded> → EAdded", () -> ttl(Case.serializer(added())), () -> Case.serializer(added()), () -> ttlValue(Samples.of(Evolving.EAdded.class)));
        wrapped("backend: List<Long> → List<TtlValue<Long>>", () -> new ListSerializer<>(LongSerializer.INSTANCE), () -> new ListSerializer<>(ttl(LongSerializer.INSTANCE)), () -> list(5L));
    }

    private void wrapped(String name, Callable<?> old, Callable<?> own, Callable<?> value) {
        cases.add(new Case("time to live", name, true, old, own, value));
    }

    static TypeInformation<?> addr() {
        return Types.POJO(compatibility.Types.Addr.class);
    }

    private static TypeInformation<?> added() {
        return Types.POJO(Evolving.EAdded.class);
    }

    static TypeInformation<?> gen() {
        return Types.GENERIC(compatibility.Types.Gen.class);
    }

    private static TypeInformation<?> named(String... names) {
        return Types.ROW_NAMED(names, Types.STRING, Types.LONG);
    }

    /** Types.SET is there since Flink 2. */
    private static TypeInformation<?> set(TypeInformation<?> element) throws Exception {
        try {
            return (TypeInformation<?>) Types.class.getMethod("SET", TypeInformation.class).invoke(null, element);
        } catch (NoSuchMethodException before) {
            return Types.GENERIC(Set.class);
        }
    }

    private static ArrayList<Object> list(Object... items) {
        return new ArrayList<>(Arrays.asList(items));
    }

    private static HashMap<Object, Object> map(Object key, Object value) {
        return new HashMap<>(Collections.singletonMap(key, value));
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static TypeSerializer<?> timer(TypeSerializer<?> key) {
        return new TimerSerializer(key, VoidNamespaceSerializer.INSTANCE);
    }

    private static Object timerOf(Object key) {
        return new TimerHeapInternalTimer<>(7, key, VoidNamespace.get());
    }

    @SuppressWarnings("unchecked")
    private static TypeSerializer<Object> ttl(TypeSerializer<?> value) throws Exception {
        Class<?> type = Class.forName("org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializer");
        for (Constructor<?> constructor : type.getDeclaredConstructors()) {
            Class<?>[] parameters = constructor.getParameterTypes();
            if (parameters.length == 2 && parameters[0] == TypeSerializer.class) {
                constructor.setAccessible(true);
                return (TypeSerializer<Object>) constructor.newInstance(LongSerializer.INSTANCE, value);
            }
        }
        throw new IllegalStateException(type.toString());
    }

    private static Object ttlValue(Object value) throws Exception {
        Constructor<?> constructor =
                Class.forName("org.apache.flink.runtime.state.ttl.TtlValue").getDeclaredConstructors()[0];
        constructor.setAccessible(true);
        return constructor.newInstance(value, 77L);
    }
}
