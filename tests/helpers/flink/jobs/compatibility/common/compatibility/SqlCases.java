package compatibility;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.ListSerializer;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.typeutils.runtime.TupleSerializer;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.GenericMapData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RawValueData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.runtime.typeutils.ArrayDataSerializer;
import org.apache.flink.table.runtime.typeutils.DecimalDataSerializer;
import org.apache.flink.table.runtime.typeutils.ExternalTypeInfo;
import org.apache.flink.table.runtime.typeutils.MapDataSerializer;
import org.apache.flink.table.runtime.typeutils.RowDataSerializer;
import org.apache.flink.table.runtime.typeutils.StringDataSerializer;
import org.apache.flink.table.runtime.typeutils.TimestampDataSerializer;
import org.apache.flink.table.types.logical.ArrayType;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.BooleanType;
import org.apache.flink.table.types.logical.CharType;
import org.apache.flink.table.types.logical.DateType;
import org.apache.flink.table.types.logical.DecimalType;
import org.apache.flink.table.types.logical.DoubleType;
import org.apache.flink.table.types.logical.FloatType;
import org.apache.flink.table.types.logical.IntType;
import org.apache.flink.table.types.logical.LocalZonedTimestampType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.MapType;
import org.apache.flink.table.types.logical.MultisetType;
import org.apache.flink.table.types.logical.RawType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.TimeType;
import org.apache.flink.table.types.logical.TimestampKind;
import org.apache.flink.table.types.logical.TimestampType;
import org.apache.flink.table.types.logical.VarBinaryType;
import org.apache.flink.table.types.logical.VarCharType;

/** Rows and collections of SQL. */
final class SqlCases {
    private static final LogicalType INT = new IntType();
    private static final LogicalType LONG = new BigIntType();
    private static final LogicalType TEXT = VarCharType.STRING_TYPE;

    private final List<Case> cases;

    private SqlCases(List<Case> cases) {
        this.cases = cases;
    }

    static void add(List<Case> cases) {
        SqlCases all = new SqlCases(cases);
        all.rows();
        all.others();
    }

    private void rows() {
        Callable<?> value = () -> GenericRowData.of(1, text("a"));
        same("RowData(INT,STRING)", () -> row(INT, TEXT), value);
        pair("INT NOT NULL → INT", () -> row(new IntType(false), TEXT), () -> row(INT, TEXT), value);
        pair("INT → INT NOT NULL", () -> row(INT, TEXT), () -> row(new IntType(false), TEXT), value);
        pair("STRING → STRING NOT NULL", () -> row(TEXT), () -> row(new VarCharType(false, VarCharType.MAX_LENGTH)), () -> GenericRowData.of(text("a")));
        pair("VARCHAR(10) → VARCHAR(20)", () -> row(new VarCharType(10)), () -> row(new VarCharType(20)), () -> GenericRowData.of(text("a")));
        pair("VARCHAR(10) → STRING", () -> row(new VarCharType(10)), () -> row(TEXT), () -> GenericRowData.of(text("a")));
        pair("CHAR(3) → STRING", () -> row(new CharType(3)), () -> row(TEXT), () -> GenericRowData.of(text("abc")));
        pair("INT → BIGINT", () -> row(INT, TEXT), () -> row(LONG, TEXT), value);
        pair("FLOAT → DOUBLE", () -> row(new FloatType()), () -> row(new DoubleType()), () -> GenericRowData.of(1f));
        pair("DECIMAL(10,2) → DECIMAL(12,2)", () -> row(new DecimalType(10, 2)), () -> row(new DecimalType(12, 2)), () -> GenericRowData.of(DecimalData.fromUnscaledLong(120, 10, 2)));
        pair("DECIMAL(10,2) → DECIMAL(38,2)", () -> row(new DecimalType(10, 2)), () -> row(new DecimalType(38, 2)), () -> GenericRowData.of(DecimalData.fromUnscaledLong(120, 10, 2)));
        pair("TIMESTAMP(3) → TIMESTAMP(6)", () -> row(new TimestampType(3)), () -> row(new TimestampType(6)), () -> GenericRowData.of(moment()));
        pair("TIMESTAMP(3) → TIMESTAMP_LTZ(3)", () -> row(new TimestampType(3)), () -> row(new LocalZonedTimestampType(3)), () -> GenericRowData.of(moment()));
        pair("TIMESTAMP(3) → *ROWTIME*", () -> row(new TimestampType(3)), () -> row(new TimestampType(true, TimestampKind.ROWTIME, 3)), () -> GenericRowData.of(moment()));
        pair("field added at the end", () -> row(INT, TEXT), () -> row(INT, TEXT, LONG), value);
        pair("field removed", () -> row(INT, TEXT, LONG), () -> row(INT, TEXT), () -> GenericRowData.of(1, text("a"), 2L));
        pair("fields swapped", () -> row(INT, TEXT), () -> row(TEXT, INT), value);
        pair("field renamed", () -> named("a", "b"), () -> named("a", "c"), value);
        same("nested ROW", () -> row(INT, RowType.of(INT, TEXT)), () -> GenericRowData.of(1, GenericRowData.of(2, text("b"))));
        pair("nested ROW field renamed", () -> row(inner("a", "b")), () -> row(inner("a", "c")), () -> GenericRowData.of(GenericRowData.of(2, text("b"))));
        pair("nested ROW field added", () -> row(RowType.of(INT, TEXT)), () -> row(RowType.of(INT, TEXT, LONG)), () -> GenericRowData.of(GenericRowData.of(2, text("b"))));
        same("ARRAY<INT>", () -> row(new ArrayType(INT)), () -> GenericRowData.of(new GenericArrayData(new Integer[] {1, null})));
        pair("ARRAY<INT> → ARRAY<INT NOT NULL>", () -> row(new ArrayType(INT)), () -> row(new ArrayType(new IntType(false))), () -> GenericRowData.of(new GenericArrayData(new Integer[] {1})));
        same("MAP<STRING,BIGINT>", () -> row(new MapType(TEXT, LONG)), () -> GenericRowData.of(map(2L)));
        same("MULTISET<STRING>", () -> row(new MultisetType(TEXT)), () -> GenericRowData.of(map(2)));
        same("BOOLEAN,DATE,TIME,BYTES,DOUBLE", () -> row(new BooleanType(), new DateType(), new TimeType(), new VarBinaryType(9), new DoubleType()), () -> GenericRowData.of(true, 5, 6, new byte[] {1}, 2.5));
        same("RAW(generic Gen)", () -> row(raw(Types.Gen.class, Case.serializer(Cases.gen()))), () -> GenericRowData.of(RawValueData.fromObject(Samples.of(Types.Gen.class))));
        same("RAW(Addr)", () -> row(raw(Types.Addr.class, Case.serializer(Cases.addr()))), () -> GenericRowData.of(RawValueData.fromObject(Samples.of(Types.Addr.class))));
    }

    private void others() {
        same("StringDataSerializer", () -> StringDataSerializer.INSTANCE, () -> text("a"));
        same("DECIMAL(10,2)", () -> new DecimalDataSerializer(10, 2), () -> DecimalData.fromUnscaledLong(120, 10, 2));
        pair("DECIMAL(10,2) → DECIMAL(12,2) alone", () -> new DecimalDataSerializer(10, 2), () -> new DecimalDataSerializer(12, 2), () -> DecimalData.fromUnscaledLong(120, 10, 2));
        same("TIMESTAMP(3)", () -> new TimestampDataSerializer(3), SqlCases::moment);
        pair("TIMESTAMP(3) → TIMESTAMP(6) alone", () -> new TimestampDataSerializer(3), () -> new TimestampDataSerializer(6), SqlCases::moment);
        same("ArrayDataSerializer", () -> new ArrayDataSerializer(INT), () -> new GenericArrayData(new Integer[] {1, null}));
        pair("array of INT → BIGINT", () -> new ArrayDataSerializer(INT), () -> new ArrayDataSerializer(LONG), () -> new GenericArrayData(new Integer[] {1, null}));
        same("MapDataSerializer", () -> new MapDataSerializer(TEXT, LONG), () -> map(2L));
        pair("map of BIGINT → INT", () -> new MapDataSerializer(TEXT, LONG), () -> new MapDataSerializer(TEXT, INT), () -> map(2L));
        same("List<RowData>", () -> new ListSerializer<>((TypeSerializer<?>) row(INT, TEXT)), () -> new ArrayList<>(Arrays.asList(GenericRowData.of(1, text("a")))));
        same("Tuple2<RowData,Integer> (join state)", SqlCases::joined, () -> Tuple2.of(GenericRowData.of(1, text("a")), 3));
        same("ExternalTypeInfo STRING", () -> ExternalTypeInfo.of(DataTypes.STRING()), () -> "a");
        pair("ExternalTypeInfo STRING → BIGINT", () -> ExternalTypeInfo.of(DataTypes.STRING()), () -> ExternalTypeInfo.of(DataTypes.BIGINT()), () -> "a");
    }

    private void same(String name, Callable<?> type, Callable<?> value) {
        pair(name, type, type, value);
    }

    private void pair(String name, Callable<?> old, Callable<?> own, Callable<?> value) {
        cases.add(new Case("SQL", "SQL " + name, false, old, own, value));
    }

    private static Object row(LogicalType... fields) {
        return new RowDataSerializer(RowType.of(fields));
    }

    private static Object named(String... names) {
        return new RowDataSerializer(inner(names));
    }

    private static RowType inner(String... names) {
        return RowType.of(new LogicalType[] {INT, TEXT}, names);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static LogicalType raw(Class type, TypeSerializer<?> serializer) {
        return new RawType(type, serializer);
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Object joined() {
        TypeSerializer<?>[] fields = {(TypeSerializer<?>) row(INT, TEXT), IntSerializer.INSTANCE};
        return new TupleSerializer(Tuple2.class, fields);
    }

    private static StringData text(String text) {
        return StringData.fromString(text);
    }

    private static TimestampData moment() {
        return TimestampData.fromEpochMillis(5);
    }

    private static GenericMapData map(Object value) {
        return new GenericMapData(Collections.singletonMap(text("k"), value));
    }
}
