package stateproc.vectors;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.typeutils.base.BigIntSerializer;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.GenericMapData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RawValueData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.LogicalType;

/** One logical type with values of it in Flink's internal form. */
final class Column {
    final String name;
    final DataType dataType;
    final LogicalType type;
    final Object[] values;

    Column(DataType dataType, Object... values) {
        this.dataType = dataType;
        this.type = dataType.getLogicalType();
        this.name = type.asSummaryString();
        this.values = values;
    }
}

/** Columns of every logical type, values at and beyond the edges of the inline forms. */
final class Columns {
    private static final long MILLIS = 1_700_000_000_123L;

    private Columns() {}

    /** A structured type's class. */
    public static final class Person {
        public String name;
        public Integer age;
    }

    static List<Column> all() {
        List<Column> all = new ArrayList<>(scalars());
        all.addAll(texts());
        all.addAll(times());
        all.addAll(nested());
        return all;
    }

    private static List<Column> scalars() {
        BigDecimal large = new BigDecimal("12345678901234567890123456789.012345678");
        return Arrays.asList(
                new Column(DataTypes.BOOLEAN(), true, false),
                new Column(DataTypes.TINYINT(), (byte) 0, (byte) -1, Byte.MIN_VALUE),
                new Column(DataTypes.SMALLINT(), (short) 1, (short) -1, Short.MIN_VALUE),
                new Column(DataTypes.INT(), 1, -1, Integer.MIN_VALUE),
                new Column(DataTypes.BIGINT(), 1L, -1L, Long.MIN_VALUE, Long.MAX_VALUE),
                new Column(DataTypes.FLOAT(), 1.5f, -0f, Float.NaN),
                new Column(DataTypes.DOUBLE(), 0.1, -0.0, Double.NEGATIVE_INFINITY),
                decimal(1, 0, "7", "-9"),
                decimal(9, 2, "1234567.89", "-0.01", "0"),
                decimal(18, 18, "0.123456789012345678", "-0.999999999999999999"),
                decimal(19, 0, "9999999999999999999", "-1", "0"),
                new Column(DataTypes.DECIMAL(38, 9), DecimalData.fromBigDecimal(large, 38, 9),
                        DecimalData.fromBigDecimal(large.negate(), 38, 9), DecimalData.fromBigDecimal(BigDecimal.ZERO, 38, 9)),
                decimal(38, 38, "0.00000000000000000000000000000000000001", "-0.5"),
                new Column(DataTypes.INT().notNull(), 5, -5),
                new Column(DataTypes.INTERVAL(DataTypes.YEAR(), DataTypes.MONTH()), 14, -1),
                new Column(DataTypes.INTERVAL(DataTypes.DAY(), DataTypes.SECOND(3)), 86_400_001L, -5L));
    }

    private static Column decimal(int precision, int scale, String... values) {
        return new Column(DataTypes.DECIMAL(precision, scale), Arrays.stream(values)
                .map(value -> DecimalData.fromBigDecimal(new BigDecimal(value), precision, scale)).toArray());
    }

    private static List<Column> texts() {
        Object[] strings = Arrays.stream(new String[] {"", "a", "1234567", "12345678", "123456789", "é€𝄞", "ééé", "éééé", "\u0000",
            Samples.repeat("long ", 60)}).map(StringData::fromString).toArray();
        Object[] bytes = {new byte[0], new byte[] {-1}, new byte[7], "12345678".getBytes(), Samples.repeat("b", 300).getBytes()};
        return Arrays.asList(
                new Column(DataTypes.CHAR(3), StringData.fromString("abc")),
                new Column(DataTypes.VARCHAR(20), StringData.fromString("12345678901234567890")),
                new Column(DataTypes.STRING(), strings),
                new Column(DataTypes.BINARY(4), (Object) new byte[] {1, 2, 3, -4}),
                new Column(DataTypes.VARBINARY(10), (Object) new byte[] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}),
                new Column(DataTypes.BYTES(), bytes));
    }

    private static List<Column> times() {
        List<Column> columns = new ArrayList<>(Arrays.asList(
                new Column(DataTypes.DATE(), 0, 19_782, -719_162, 2_932_896),
                new Column(DataTypes.TIME(0), 0, 86_399_000),
                new Column(DataTypes.TIME(3), 1, 86_399_999)));
        for (int precision = 0; precision <= 9; precision++) {
            int unit = (int) Math.pow(10, Math.max(0, 9 - Math.max(precision, 3)));
            int nanos = precision <= 3 ? 0 : 456_789 / unit * unit;
            Object[] values = {TimestampData.fromEpochMillis(MILLIS, nanos), TimestampData.fromEpochMillis(0, 0),
                TimestampData.fromEpochMillis(-1, nanos), TimestampData.fromEpochMillis(-62_135_596_800_000L, 0)};
            columns.add(new Column(DataTypes.TIMESTAMP(precision), values));
            if (precision % 3 == 0) {
                columns.add(new Column(DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(precision), values));
            }
        }
        return columns;
    }

    private static List<Column> nested() {
        StringData shortText = StringData.fromString("s");
        StringData longText = StringData.fromString("longer than seven bytes é");
        Map<Object, Object> map = new LinkedHashMap<>();
        map.put(shortText, 1);
        map.put(longText, null);
        Map<Object, Object> bag = new LinkedHashMap<>();
        bag.put(shortText, 2);
        bag.put(longText, 1);
        Map<Object, Object> deep = new LinkedHashMap<>();
        deep.put(5L, new GenericArrayData(new Object[] {longText, null, shortText}));
        GenericRowData inner = GenericRowData.of(1L, longText, null);
        DataType row = DataTypes.ROW(DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("name", DataTypes.STRING()),
                DataTypes.FIELD("at", DataTypes.TIMESTAMP(9)));
        return Arrays.asList(
                new Column(row, inner, GenericRowData.of(null, shortText, TimestampData.fromEpochMillis(MILLIS, 456_789))),
                new Column(DataTypes.ROW(DataTypes.FIELD("row", row), DataTypes.FIELD("rows", DataTypes.ARRAY(row))),
                        GenericRowData.of(inner, new GenericArrayData(new Object[] {inner, null, inner})), GenericRowData.of(null, null)),
                new Column(DataTypes.ARRAY(DataTypes.INT()), new GenericArrayData(new Object[] {1, null, -1}), new GenericArrayData(new Object[0])),
                new Column(DataTypes.ARRAY(DataTypes.BIGINT().notNull()), new GenericArrayData(new long[] {1, -1})),
                new Column(DataTypes.ARRAY(DataTypes.ARRAY(DataTypes.STRING())), new GenericArrayData(new Object[] {
                    new GenericArrayData(new Object[] {shortText, longText, null}), null, new GenericArrayData(new Object[0])})),
                new Column(DataTypes.MAP(DataTypes.STRING(), DataTypes.INT()), new GenericMapData(map), new GenericMapData(new LinkedHashMap<>())),
                new Column(DataTypes.MAP(DataTypes.BIGINT(), DataTypes.ARRAY(DataTypes.STRING())), new GenericMapData(deep)),
                new Column(DataTypes.MULTISET(DataTypes.STRING()), new GenericMapData(bag)),
                new Column(DataTypes.RAW(BigInteger.class, BigIntSerializer.INSTANCE),
                        RawValueData.fromObject(BigInteger.TEN.pow(30)), RawValueData.fromObject(new BigInteger("-1"))),
                new Column(DataTypes.STRUCTURED(Person.class, DataTypes.FIELD("name", DataTypes.STRING()),
                        DataTypes.FIELD("age", DataTypes.INT())), GenericRowData.of(longText, 5), GenericRowData.of(null, null)));
    }
}
