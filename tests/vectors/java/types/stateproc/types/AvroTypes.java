package stateproc.types;

import org.apache.avro.Schema;
import org.apache.flink.formats.avro.typeutils.GenericRecordAvroTypeInfo;

/** Generic records of schemas that use all that Avro's text can hold. */
final class AvroTypes {
    private AvroTypes() {}

    private static final String[] SCHEMAS = {
        "{\"type\": \"record\", \"name\": \"R\", \"fields\": []}",
        "{\"namespace\": \"com.acme\", \"doc\": \"an \\\"order\\\" é\", \"aliases\": [\"Old\", \"com.other.Older\"],"
                + " \"name\": \"Order\", \"type\": \"record\", \"owner\": \"us\", \"fields\": ["
                + "{\"type\": \"long\", \"name\": \"id\", \"doc\": \"the id\", \"default\": 0, \"order\": \"descending\"},"
                + "{\"name\": \"name\", \"type\": [\"null\", \"string\"], \"default\": null, \"aliases\": [\"title\"]},"
                + "{\"name\": \"at\", \"type\": {\"logicalType\": \"timestamp-millis\", \"type\": \"long\"}},"
                + "{\"name\": \"price\", \"type\": {\"type\": \"bytes\", \"scale\": 2, \"precision\": 10,"
                + " \"logicalType\": \"decimal\"}},"
                + "{\"name\": \"text\", \"type\": {\"type\": \"string\", \"avro.java.string\": \"String\"}},"
                + "{\"name\": \"plain\", \"type\": {\"type\": \"int\"}, \"note\": {\"a\": [1, 2.5, true]}},"
                + "{\"name\": \"state\", \"type\": {\"type\": \"enum\", \"name\": \"State\", \"symbols\": [\"NEW\","
                + " \"PAID\"], \"default\": \"NEW\"}},"
                + "{\"name\": \"hash\", \"type\": {\"type\": \"fixed\", \"namespace\": \"com.other\", \"name\": \"Md5\","
                + " \"size\": 16}},"
                + "{\"name\": \"again\", \"type\": \"com.other.Md5\"},"
                + "{\"name\": \"states\", \"type\": {\"type\": \"array\", \"items\": \"State\"}},"
                + "{\"name\": \"map\", \"type\": {\"values\": [\"null\", \"Order\"], \"type\": \"map\"}},"
                + "{\"name\": \"inner\", \"type\": {\"type\": \"record\", \"name\": \"com.deep.Inner\", \"fields\": ["
                + "{\"name\": \"s\", \"type\": \"com.acme.State\"},"
                + "{\"name\": \"o\", \"type\": {\"type\": \"enum\", \"name\": \"Own\", \"symbols\": [\"A\"]}},"
                + "{\"name\": \"p\", \"type\": [\"null\", \"Own\"]}]}}]}"
    };

    static void all() throws Exception {
        for (String text : SCHEMAS) {
            Main.type("Avro " + text, new GenericRecordAvroTypeInfo(new Schema.Parser().parse(text)));
        }
    }
}
