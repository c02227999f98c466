package stateproc.vectors;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.ListSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.MapSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.dataview.ListView;
import org.apache.flink.table.api.dataview.MapView;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.GenericMapData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.binary.BinaryRowData;
import org.apache.flink.table.runtime.typeutils.BinaryRowDataSerializer;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.ArrayType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.MapType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/** Serializers of the table runtime: internal data of every logical type, views, buffers, external forms. */
final class TableTypes {
    private static final String RUNTIME = "org.apache.flink.table.runtime.typeutils.";
    private static final String VIEW = "org.apache.flink.table.dataview.";
    private static final LogicalType TEXT = DataTypes.STRING().getLogicalType();

    private TableTypes() {}

    static void write(Vectors vectors) throws Exception {
        List<Column> columns = Columns.all();
        for (Column column : columns) {
            vectors.attempt("internal " + column.name, () -> single(vectors, column));
        }
        vectors.attempt("RowData of all", () -> allTypes(vectors, columns));
        vectors.attempt("RowData widths", () -> widths(vectors));
        vectors.attempt("BinaryRow", () -> binaryRows(vectors));
        vectors.attempt("RawValue", () -> vectors.add("RawValue of String",
                (TypeSerializer<?>) Reflect.create(RUNTIME + "RawValueDataSerializer", StringSerializer.INSTANCE),
                value -> TableJson.raw((org.apache.flink.table.data.RawValueData<?>) value, StringSerializer.INSTANCE),
                org.apache.flink.table.data.RawValueData.fromObject("é"), org.apache.flink.table.data.RawValueData.fromObject("")));
        vectors.attempt("External", () -> external(vectors));
        vectors.attempt("LinkedList", () -> linkedLists(vectors));
        vectors.attempt("WindowKey", () -> windowKeys(vectors));
        vectors.attempt("SortedMap", () -> sortedMaps(vectors));
        vectors.attempt("SortedLong", () -> vectors.add("SortedLong",
                (TypeSerializer<?>) Reflect.constant(
                        "org.apache.flink.table.runtime.operators.sink.SortedLongSerializer", "INSTANCE"), Samples.LONGS));
        vectors.attempt("views", () -> views(vectors));
        vectors.attempt("NullAwareMap", () -> nullAwareMaps(vectors));
        vectors.attempt("NullSerializer", () -> vectors.addPairs("NullSerializer",
                Reflect.constant(VIEW + "NullSerializer", "INSTANCE"), null, null));
    }

    static TypeSerializer<?> internal(LogicalType type) throws Exception {
        return Reflect.callStatic(RUNTIME + "InternalSerializers", "create", type);
    }

    private static void add(Vectors vectors, String name, LogicalType type, Object... values) throws Exception {
        vectors.add(name, internal(type), value -> TableJson.of(value, type), values);
    }

    /** The type alone, as the only column of a row (and null), in an array and as a map's value. */
    private static void single(Vectors vectors, Column column) throws Exception {
        boolean nullable = column.type.isNullable();
        add(vectors, "internal " + column.name, column.type, column.values);
        RowType row = RowType.of(column.type);
        List<Object> rows = new ArrayList<>();
        for (Object value : column.values) {
            rows.add(GenericRowData.of(value));
        }
        if (nullable) {
            rows.add(new GenericRowData(1));
        }
        add(vectors, "RowData of " + column.name, row, rows.toArray());
        if (column.name.matches("TIMESTAMP.*\\([124578]\\).*")) {
            return; // 0, 3, 6 and 9 stand for the other precisions in arrays and maps
        }
        Object[] elements = Arrays.copyOf(column.values, column.values.length + (nullable ? 1 : 0));
        add(vectors, "ArrayData of " + column.name, new ArrayType(column.type), new GenericArrayData(elements));
        if (column.values.length < 3) {
            return; // maps hold two arrays: those of the longer columns are enough
        }
        Map<Object, Object> map = new LinkedHashMap<>();
        for (Object element : elements) {
            map.put(StringData.fromString("key " + map.size()), element);
        }
        vectors.attempt("MapData to " + column.name, () -> add(vectors, "MapData to " + column.name,
                new MapType(TEXT, column.type), new GenericMapData(map)));
    }

    private static void allTypes(Vectors vectors, List<Column> columns) throws Exception {
        LogicalType[] types = columns.stream().map(column -> column.type).toArray(LogicalType[]::new);
        List<Object> rows = new ArrayList<>();
        for (RowKind kind : RowKind.values()) {
            GenericRowData row = new GenericRowData(kind, columns.size());
            for (int i = 0; i < columns.size(); i++) {
                Column column = columns.get(i);
                boolean missing = kind.ordinal() > 1 && column.type.isNullable() && (i + kind.ordinal()) % 3 == 0;
                row.setField(i, missing ? null : column.values[kind.ordinal() % column.values.length]);
            }
            rows.add(row);
        }
        add(vectors, "RowData of all", RowType.of(types), rows.toArray());
    }

    private static void widths(Vectors vectors) throws Exception {
        for (int arity : new int[] {0, 2, 56, 57}) {
            LogicalType[] types = new LogicalType[arity];
            GenericRowData full = new GenericRowData(RowKind.UPDATE_AFTER, arity);
            GenericRowData empty = new GenericRowData(RowKind.DELETE, arity);
            GenericRowData half = new GenericRowData(arity);
            for (int i = 0; i < arity; i++) {
                types[i] = i % 2 == 0 ? DataTypes.INT().getLogicalType() : TEXT;
                full.setField(i, i % 2 == 0 ? (Object) i : StringData.fromString("field " + i));
                half.setField(i, i % 3 == 0 ? null : full.getField(i));
            }
            add(vectors, "RowData of " + arity + " fields", RowType.of(types), full, empty, half);
        }
    }

    private static void binaryRows(Vectors vectors) throws Exception {
        RowDataSerializer serializer = new RowDataSerializer(RowType.of(DataTypes.BIGINT().getLogicalType(), TEXT));
        vectors.add("BinaryRow", new BinaryRowDataSerializer(2),
                value -> Encode.value(bytes((BinaryRowData) value)),
                serializer.toBinaryRow(GenericRowData.of(7L, StringData.fromString("é"))).copy(),
                serializer.toBinaryRow(GenericRowData.of(null, StringData.fromString("longer than seven"))).copy());
    }

    static byte[] bytes(BinaryRowData row) {
        byte[] bytes = new byte[row.getSizeInBytes()];
        row.getSegments()[0].get(row.getOffset(), bytes, 0, bytes.length);
        return bytes;
    }

    private static void external(Vectors vectors) throws Exception {
        external(vectors, DataTypes.STRING(), "é", "");
        external(vectors, DataTypes.BIGINT(), 5L, -5L);
        external(vectors, DataTypes.DECIMAL(20, 3), new java.math.BigDecimal("12345678901234567.890"));
        external(vectors, DataTypes.TIMESTAMP(9), java.time.LocalDateTime.of(2024, 2, 29, 1, 2, 3, 456_789_012));
        external(vectors, DataTypes.DATE(), java.time.LocalDate.of(2024, 2, 29));
        external(vectors, DataTypes.BOOLEAN(), true);
        external(vectors, DataTypes.ARRAY(DataTypes.STRING()), (Object) new String[] {"a", null, "é"});
        external(vectors, DataTypes.MAP(DataTypes.STRING(), DataTypes.INT()), java.util.Collections.singletonMap("k", 1));
        external(vectors, DataTypes.ROW(DataTypes.FIELD("f0", DataTypes.INT()), DataTypes.FIELD("f1", DataTypes.STRING())),
                Row.of(1, "é"), Row.of(null, null));
    }

    private static void external(Vectors vectors, DataType type, Object... values) {
        vectors.attempt("External " + type, () -> vectors.add("External of " + type,
                (TypeSerializer<?>) Reflect.callStatic(RUNTIME + "ExternalSerializer", "of", type), values));
    }

    private static void linkedLists(Vectors vectors) throws Exception {
        TypeSerializer<?> serializer = Reflect.create(RUNTIME + "LinkedListSerializer", LongSerializer.INSTANCE);
        LinkedList<Object> many = new LinkedList<>();
        for (long i = 0; i < 20; i++) {
            many.add(i % 3 == 0 ? null : i);
        }
        vectors.add("LinkedList", serializer, new LinkedList<>(), new LinkedList<>(Arrays.asList(1L, null, -1L)), many);
        vectors.attempt("LinkedList without mask", () -> vectors.add("LinkedList without mask",
                (TypeSerializer<?>) Reflect.create(RUNTIME + "LinkedListSerializer", LongSerializer.INSTANCE, false),
                new LinkedList<>(), new LinkedList<>(Arrays.asList(1L, 2L))));
    }

    private static void windowKeys(Vectors vectors) throws Exception {
        LogicalType type = RowType.of(DataTypes.STRING().getLogicalType(), DataTypes.INT().getLogicalType());
        TypeSerializer<?> rows = internal(type);
        String key = "org.apache.flink.table.runtime.util.WindowKey";
        if (!Reflect.exists(key)) {
            key = "org.apache.flink.table.runtime.operators.window.combines.WindowKey";
        }
        RowData row = GenericRowData.of(StringData.fromString("é"), null);
        vectors.addPairs("WindowKey", Reflect.create(RUNTIME + "WindowKeySerializer", rows),
                Reflect.create(key, 60_000L, row), Json.object("window", 60_000L, "key", TableJson.of(row, type)),
                Reflect.create(key, -1L, row), Json.object("window", -1L, "key", TableJson.of(row, type)));
    }

    private static void sortedMaps(Vectors vectors) throws Exception {
        LogicalType[] types = {DataTypes.BIGINT().getLogicalType()};
        RowType type = RowType.of(types);
        String generated = "org.apache.flink.table.runtime.generated.GeneratedRecordComparator";
        Object source = Reflect.create(generated, "Comparator", "class Comparator {}", new Object[0]);
        Object comparator = Reflect.create("org.apache.flink.table.runtime.operators.rank.ComparableRecordComparator",
                source, new int[] {0}, types, new boolean[] {true}, new boolean[] {false});
        TypeSerializer<?> rows = internal(type);
        TypeSerializer<?> serializer =
                Reflect.create(RUNTIME + "SortedMapSerializer", comparator, rows, LongSerializer.INSTANCE);
        TreeMap<RowData, Long> map = new TreeMap<>((left, right) -> Long.compare(left.getLong(0), right.getLong(0)));
        map.put(GenericRowData.of(5L), 50L);
        map.put(GenericRowData.of(-5L), null);
        vectors.addPairs("SortedMap", serializer, map, Arrays.asList(
                Json.object("key", Json.object("f0", -5), "value", null), Json.object("key", Json.object("f0", 5), "value", 50)),
                new TreeMap<>(), new ArrayList<>());
    }

    private static void views(Vectors vectors) throws Exception {
        ListView<String> list = new ListView<>();
        list.add("a");
        list.add("é");
        vectors.addPairs("ListView", Reflect.create(VIEW + "ListViewSerializer", new ListSerializer<>(StringSerializer.INSTANCE)),
                list, Arrays.asList("a", "é"), new ListView<>(), new ArrayList<>());
        MapView<String, Integer> map = new MapView<>();
        map.put("k", 1);
        map.put("none", null);
        vectors.addPairs("MapView", Reflect.create(VIEW + "MapViewSerializer",
                new MapSerializer<>(StringSerializer.INSTANCE, IntSerializer.INSTANCE)),
                map, Encode.value(map.getMap()), new MapView<>(), new ArrayList<>());
    }

    private static void nullAwareMaps(Vectors vectors) throws Exception {
        Map<String, Integer> map = new LinkedHashMap<>();
        map.put("k", 1);
        map.put(null, 2);
        map.put("none", null);
        vectors.add("NullAwareMap", (TypeSerializer<?>) Reflect.create(
                VIEW + "NullAwareMapSerializer", StringSerializer.INSTANCE, IntSerializer.INSTANCE), map, new LinkedHashMap<>());
    }
}
