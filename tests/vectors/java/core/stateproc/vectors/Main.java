package stateproc.vectors;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;

/** Writes the vectors of the Flink release on the class path: arguments are its version and the file to write. */
public final class Main {
    /** One class per group of serializers; those whose sources do not compile in a release are not there. */
    private static final String[] TOPICS = {
        "Scalars", "Collections", "Composites", "UserValues", "Pojos", "KryoValues", "KryoClasses", "RuntimeTypes", "Records",
        "AvroTypes", "TableTypes", "SequencedMultiset", "CepTypes", "ScalaTypes", "ConnectorTypes", "GellyTypes", "Keys", "Hashes", "TableHashes"
    };

    private Main() {}

    public static void main(String[] arguments) throws Exception {
        Vectors vectors = new Vectors();
        for (String topic : TOPICS) {
            String name = "stateproc.vectors." + topic;
            if (Reflect.exists(name)) {
                vectors.attempt(topic, () -> Reflect.callStatic(name, "write", vectors));
            } else {
                System.err.println("left out: " + topic);
            }
        }
        StringBuilder out = new StringBuilder("{\"flink\":\"" + arguments[0] + "\",\n\"serializers\":[\n");
        String separator = "";
        for (Object entry : vectors.entries) {
            out.append(separator).append(Json.text(entry));
            separator = ",\n";
        }
        out.append("\n]");
        for (String name : vectors.document.keySet()) {
            out.append(",\n\"").append(name).append("\":").append(Json.text(vectors.document.get(name)));
        }
        out.append("}\n");
        Files.write(Paths.get(arguments[1]), out.toString().getBytes(StandardCharsets.US_ASCII));
    }
}
