package compatibility;

import java.util.List;
import java.util.concurrent.Callable;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.flink.formats.avro.typeutils.AvroSerializer;

/** Generic records of Avro. */
final class AvroCases {
    private static final String XY = record("{'name': 'x', 'type': 'int'}, {'name': 'y', 'type': 'string'}");
    private static final String ENUM = "{'name': 'x', 'type': {'type': 'enum', 'name': 'E', 'symbols': [%s]}}";
    private static final String INNER = "{'name': 'x', 'type': {'type': 'record', 'name': 'I', 'fields': [%s]}}";

    private final List<Case> cases;

    private AvroCases(List<Case> cases) {
        this.cases = cases;
    }

    static void add(List<Case> cases) {
        AvroCases all = new AvroCases(cases);
        Callable<Object> xy = () -> value(XY, "x", 1, "y", "a");
        all.pair("unchanged", XY, XY, xy);
        all.pair("field with default added", XY, record("{'name': 'x', 'type': 'int'}, {'name': 'y', 'type': 'string'}, {'name': 'z', 'type': 'int', 'default': 7}"), xy);
        all.pair("field with default added in front", XY, record("{'name': 'z', 'type': 'int', 'default': 7}, {'name': 'x', 'type': 'int'}, {'name': 'y', 'type': 'string'}"), xy);
        all.pair("field without default added", XY, record("{'name': 'x', 'type': 'int'}, {'name': 'y', 'type': 'string'}, {'name': 'z', 'type': 'int'}"), xy);
        all.pair("field removed", XY, record("{'name': 'x', 'type': 'int'}"), xy);
        all.pair("first field removed", XY, record("{'name': 'y', 'type': 'string'}"), xy);
        all.pair("int → long", XY, record("{'name': 'x', 'type': 'long'}, {'name': 'y', 'type': 'string'}"), xy);
        all.pair("int → double", XY, record("{'name': 'x', 'type': 'double'}, {'name': 'y', 'type': 'string'}"), xy);
        all.pair("long → int", record("{'name': 'x', 'type': 'long'}"), record("{'name': 'x', 'type': 'int'}"), () -> value(record("{'name': 'x', 'type': 'long'}"), "x", 1L));
        all.pair("string → bytes", XY, record("{'name': 'x', 'type': 'int'}, {'name': 'y', 'type': 'bytes'}"), xy);
        all.pair("field renamed", XY, record("{'name': 'x', 'type': 'int'}, {'name': 'yy', 'type': 'string'}"), xy);
        all.pair("field renamed with alias", XY, record("{'name': 'x', 'type': 'int'}, {'name': 'yy', 'type': 'string', 'aliases': ['y']}"), xy);
        all.pair("fields reordered", XY, record("{'name': 'y', 'type': 'string'}, {'name': 'x', 'type': 'int'}"), xy);
        all.pair("string → union null", XY, record("{'name': 'x', 'type': 'int'}, {'name': 'y', 'type': ['null', 'string']}"), xy);
        String union = record("{'name': 'y', 'type': ['null', 'string']}");
        all.pair("union null → string", union, record("{'name': 'y', 'type': 'string'}"), () -> value(union, "y", "a"));
        all.pair("union reordered", union, record("{'name': 'y', 'type': ['string', 'null']}"), () -> value(union, "y", "a"));
        all.pair("union extended", union, record("{'name': 'y', 'type': ['null', 'string', 'long']}"), () -> value(union, "y", "a"));
        Callable<Object> constant = () -> value(symbols("'A', 'B'"), "x", new GenericData.EnumSymbol(parse(symbols("'A', 'B'")).getField("x").schema(), "B"));
        all.pair("enum reordered", symbols("'A', 'B'"), symbols("'B', 'A'"), constant);
        all.pair("enum symbol appended", symbols("'A', 'B'"), symbols("'A', 'B', 'C'"), constant);
        all.pair("enum symbol removed", symbols("'A', 'B'"), symbols("'B'"), constant);
        String at = record("{'name': 'x', 'type': 'long'}");
        all.pair("logical type added (long → timestamp-millis)", at, record("{'name': 'x', 'type': {'type': 'long', 'logicalType': 'timestamp-millis'}}"), () -> value(at, "x", 5L));
        String nested = record(String.format(INNER, "{'name': 'p', 'type': 'int'}"));
        Callable<Object> inner = () -> value(nested, "x", part(parse(nested).getField("x").schema(), "p", 4));
        all.pair("nested field with default added", nested, record(String.format(INNER, "{'name': 'p', 'type': 'int'}, {'name': 'q', 'type': 'int', 'default': 0}")), inner);
        all.pair("nested field without default added", nested, record(String.format(INNER, "{'name': 'p', 'type': 'int'}, {'name': 'q', 'type': 'int'}")), inner);
        String array = record("{'name': 'x', 'type': {'type': 'array', 'items': 'int'}}");
        all.pair("array of int → long", array, record("{'name': 'x', 'type': {'type': 'array', 'items': 'long'}}"), () -> value(array, "x", java.util.Arrays.asList(1, 2)));
        all.pair("record renamed", XY, XY.replace("'R'", "'S'"), xy);
        all.pair("default changed", XY, record("{'name': 'x', 'type': 'int', 'default': 1}, {'name': 'y', 'type': 'string'}"), xy);
        all.pair("documentation added", XY, record("{'name': 'x', 'type': 'int', 'doc': 'text'}, {'name': 'y', 'type': 'string'}"), xy);
        cases.add(new Case("Avro", "Avro → POJO", false, () -> serializer(XY), Cases::addr, xy));
    }

    private void pair(String name, String old, String own, Callable<?> value) {
        cases.add(new Case("Avro", "Avro " + name, false, () -> serializer(old), () -> serializer(own), value));
    }

    private static String record(String fields) {
        return "{'type': 'record', 'name': 'R', 'fields': [" + fields + "]}";
    }

    private static String symbols(String symbols) {
        return record(String.format(ENUM, symbols));
    }

    private static Schema parse(String text) {
        return new Schema.Parser().parse(text.replace('\'', '"'));
    }

    private static Object serializer(String schema) {
        return new AvroSerializer<>(GenericRecord.class, parse(schema));
    }

    private static Object value(String schema, Object... fields) {
        return part(parse(schema), fields);
    }

    private static Object part(Schema schema, Object... fields) {
        GenericData.Record record = new GenericData.Record(schema);
        for (int at = 0; at < fields.length; at += 2) {
            record.put((String) fields[at], fields[at + 1]);
        }
        return record;
    }
}
