package stateproc.vectors;

import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.IndexedRecord;
import org.apache.avro.util.Utf8;
import org.apache.flink.formats.avro.typeutils.AvroSerializer;

/** Avro records in Flink's own encoding of Avro data. */
public final class AvroTypes {
    private static final String ALL = "{'type':'record','name':'All','namespace':'demo','fields':["
            + "{'name':'truth','type':'boolean'},{'name':'number','type':'int'},{'name':'large','type':'long'},"
            + "{'name':'ratio','type':'float'},{'name':'precise','type':'double'},{'name':'text','type':'string'},"
            + "{'name':'blob','type':'bytes'},{'name':'nothing','type':'null'},"
            + "{'name':'suit','type':{'type':'enum','name':'Suit','symbols':['HEARTS','SPADES']}},"
            + "{'name':'fixed','type':{'type':'fixed','name':'Four','size':4}},"
            + "{'name':'list','type':{'type':'array','items':'string'}},"
            + "{'name':'map','type':{'type':'map','values':'long'}},"
            + "{'name':'maybe','type':['null','string'],'default':null},"
            + "{'name':'either','type':['int','string','Suit','null']},"
            + "{'name':'inner','type':{'type':'record','name':'Inner','fields':[{'name':'id','type':'long'},"
            + "{'name':'tags','type':{'type':'array','items':['null','int']}}]}},"
            + "{'name':'inners','type':{'type':'array','items':'Inner'}},"
            + "{'name':'again','type':['null','Inner']}]}";
    private static final String LOGICAL = "{'type':'record','name':'Logical','fields':["
            + "{'name':'day','type':{'type':'int','logicalType':'date'}},"
            + "{'name':'time_millis','type':{'type':'int','logicalType':'time-millis'}},"
            + "{'name':'time_micros','type':{'type':'long','logicalType':'time-micros'}},"
            + "{'name':'millis','type':{'type':'long','logicalType':'timestamp-millis'}},"
            + "{'name':'micros','type':{'type':'long','logicalType':'timestamp-micros'}},"
            + "{'name':'local_millis','type':{'type':'long','logicalType':'local-timestamp-millis'}},"
            + "{'name':'local_micros','type':{'type':'long','logicalType':'local-timestamp-micros'}},"
            + "{'name':'uuid','type':{'type':'string','logicalType':'uuid'}},"
            + "{'name':'price','type':{'type':'bytes','logicalType':'decimal','precision':10,'scale':2}},"
            + "{'name':'fixed_price','type':{'type':'fixed','name':'Price','size':8,'logicalType':'decimal','precision':18,'scale':3}},"
            + "{'name':'maybe_day','type':['null',{'type':'int','logicalType':'date'}]}]}";
    private static final String TREE = "{'type':'record','name':'Tree','fields':[{'name':'value','type':'int'},"
            + "{'name':'left','type':['null','Tree'],'default':null},{'name':'children','type':{'type':'array','items':'Tree'}}]}";

    private AvroTypes() {}

    /** A class without schema: Avro derives one by reflection. */
    public static class Reflected {
        public int number = 5;
        public String text = "é";
        public long[] longs = {1, -1};
    }

    static void write(Vectors vectors) throws Exception {
        generic(vectors, "Avro all types", schema(ALL), AvroTypes::all);
        generic(vectors, "Avro logical types", schema(LOGICAL), AvroTypes::logical);
        generic(vectors, "Avro recursive", schema(TREE), AvroTypes::trees);
        AvroUser user = new AvroUser();
        user.id = -5;
        user.name = "é";
        user.scores.add(1.5);
        vectors.add("Avro specific", new AvroSerializer<>(AvroUser.class), AvroTypes::tree, user, new AvroUser());
        vectors.attempt("Avro reflect", () -> vectors.add("Avro reflect", new AvroSerializer<>(Reflected.class), new Reflected()));
    }

    /** The records of a schema. */
    interface Records {
        List<Object> of(Schema schema);
    }

    private static void generic(Vectors vectors, String name, Schema schema, Records records) {
        vectors.attempt(name, () -> vectors.add(name, new AvroSerializer<>(GenericRecord.class, schema),
                AvroTypes::tree, records.of(schema).toArray()));
    }

    static Schema schema(String text) {
        return new Schema.Parser().parse(text.replace('\'', '"'));
    }

    private static List<Object> all(Schema schema) {
        GenericRecord full = new GenericData.Record(schema);
        GenericRecord bare = new GenericData.Record(schema);
        Schema inner = schema.getField("inner").schema();
        Schema suit = schema.getField("suit").schema();
        GenericRecord one = new GenericData.Record(inner);
        one.put("id", 1L);
        one.put("tags", Arrays.asList(1, null, -1));
        Map<Object, Object> map = new LinkedHashMap<>();
        map.put(new Utf8("k"), 1L);
        map.put(new Utf8("é"), -1L);
        List<Object> many = new ArrayList<>();
        for (int i = 0; i < 300; i++) {
            many.add(new Utf8("t" + i));
        }
        Object[] values = {true, -1, Long.MIN_VALUE, 0.1f, Double.NaN, new Utf8("é€𝄞"), ByteBuffer.wrap(new byte[] {1, -1}), null,
            new GenericData.EnumSymbol(suit, "SPADES"), new GenericData.Fixed(schema.getField("fixed").schema(), new byte[] {1, 2, 3, -4}),
            many, map, new Utf8("some"), new Utf8("string"), one, Arrays.asList(one, one), one};
        Object[] empties = {false, 0, 0L, -0f, 0.0, new Utf8(""), ByteBuffer.wrap(new byte[0]), null,
            new GenericData.EnumSymbol(suit, "HEARTS"), new GenericData.Fixed(schema.getField("fixed").schema(), new byte[4]),
            new ArrayList<>(), new LinkedHashMap<>(), null, new GenericData.EnumSymbol(suit, "SPADES"), one, new ArrayList<>(), null};
        for (int i = 0; i < values.length; i++) {
            full.put(i, values[i]);
            bare.put(i, empties[i]);
        }
        return Arrays.asList(full, bare);
    }

    private static List<Object> logical(Schema schema) {
        GenericRecord record = new GenericData.Record(schema);
        Object[] values = {19_782, 3_723_004, 3_723_004_005L, 1_700_000_000_123L, 1_700_000_000_123_456L, 1_700_000_000_123L,
            1_700_000_000_123_456L, new Utf8("00000000-0000-0001-ffff-ffffffffffff"), ByteBuffer.wrap(new byte[] {-1, 0, 5}),
            new GenericData.Fixed(schema.getField("fixed_price").schema(), new byte[] {0, 0, 0, 0, 0, 1, 2, 3}), null};
        for (int i = 0; i < values.length; i++) {
            record.put(i, values[i]);
        }
        GenericRecord early = new GenericData.Record(schema);
        Object[] before = {-1, 0, 0L, -1L, -1L, -1L, -1L, new Utf8("00000000-0000-0000-0000-000000000000"), ByteBuffer.wrap(new byte[1]),
            new GenericData.Fixed(schema.getField("fixed_price").schema(), new byte[] {-1, -1, -1, -1, -1, -1, -1, -1}), 5};
        for (int i = 0; i < before.length; i++) {
            early.put(i, before[i]);
        }
        return Arrays.asList(record, early);
    }

    private static List<Object> trees(Schema schema) {
        GenericRecord leaf = new GenericData.Record(schema);
        leaf.put("value", 1);
        leaf.put("children", new ArrayList<>());
        GenericRecord middle = new GenericData.Record(schema);
        middle.put("value", 2);
        middle.put("left", leaf);
        middle.put("children", Arrays.asList(leaf, leaf));
        GenericRecord root = new GenericData.Record(schema);
        root.put("value", 3);
        root.put("left", middle);
        root.put("children", Arrays.asList(middle));
        return Arrays.asList(leaf, middle, root);
    }

    private static Object tree(Object value) throws Exception {
        IndexedRecord record = (IndexedRecord) value;
        Map<String, Object> fields = Json.object();
        for (Schema.Field field : record.getSchema().getFields()) {
            fields.put(field.name(), tree(record.get(field.pos()), field.schema()));
        }
        return fields;
    }

    private static Object tree(Object value, Schema schema) throws Exception {
        if (value == null) {
            return null;
        }
        if (schema.getType() == Schema.Type.UNION) {
            return tree(value, schema.getTypes().get(GenericData.get().resolveUnion(schema, value)));
        }
        LogicalType logical = schema.getLogicalType();
        String name = logical == null ? schema.getProp("logicalType") : logical.getName();
        if (name != null) {
            return meaning(name, value, schema);
        }
        if (value instanceof IndexedRecord) {
            return tree(value);
        }
        if (value instanceof ByteBuffer) {
            return Encode.value(((ByteBuffer) value).array());
        }
        if (value instanceof GenericFixed) {
            return Encode.value(((GenericFixed) value).bytes());
        }
        if (value instanceof GenericData.EnumSymbol) {
            return value.toString();
        }
        if (value instanceof List) {
            List<Object> items = new ArrayList<>();
            for (Object item : (List<?>) value) {
                items.add(tree(item, schema.getElementType()));
            }
            return items;
        }
        if (value instanceof Map) {
            List<Object> entries = new ArrayList<>();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                entries.add(Json.object("key", entry.getKey().toString(), "value", tree(entry.getValue(), schema.getValueType())));
            }
            return entries;
        }
        return Encode.value(value);
    }

    private static Object meaning(String logical, Object value, Schema schema) throws Exception {
        switch (logical) {
            case "date":
                return LocalDate.ofEpochDay((Integer) value).toString();
            case "time-millis":
                return LocalTime.ofNanoOfDay((Integer) value * 1_000_000L).toString();
            case "time-micros":
                return LocalTime.ofNanoOfDay((Long) value * 1_000L).toString();
            case "timestamp-millis":
                return Instant.ofEpochMilli((Long) value).toString();
            case "timestamp-micros":
                return micros((Long) value).toString();
            case "local-timestamp-millis":
                return LocalDateTime.ofInstant(Instant.ofEpochMilli((Long) value), ZoneOffset.UTC).toString();
            case "local-timestamp-micros":
                return LocalDateTime.ofInstant(micros((Long) value), ZoneOffset.UTC).toString();
            case "decimal":
                byte[] bytes = value instanceof ByteBuffer ? ((ByteBuffer) value).array() : ((GenericFixed) value).bytes();
                int scale = ((LogicalTypes.Decimal) schema.getLogicalType()).getScale();
                return new BigDecimal(new java.math.BigInteger(bytes), scale).toString();
            default:
                return value.toString();
        }
    }

    private static Instant micros(long micros) {
        return Instant.ofEpochSecond(Math.floorDiv(micros, 1_000_000L), Math.floorMod(micros, 1_000_000L) * 1000);
    }
}
