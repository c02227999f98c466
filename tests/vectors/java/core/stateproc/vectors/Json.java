package stateproc.vectors;

import java.util.LinkedHashMap;
import java.util.Map;

/** Trees of maps, lists, strings, numbers, booleans and nulls as ASCII JSON text. */
final class Json {
    private Json() {}

    /** An object from alternating names and values. */
    static Map<String, Object> object(Object... namesAndValues) {
        Map<String, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            map.put((String) namesAndValues[i], namesAndValues[i + 1]);
        }
        return map;
    }

    static String text(Object tree) {
        StringBuilder out = new StringBuilder();
        write(tree, out);
        return out.toString();
    }

    static void write(Object tree, StringBuilder out) {
        if (tree instanceof Map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) tree).entrySet()) {
                out.append(separator);
                writeString((String) entry.getKey(), out);
                out.append(':');
                write(entry.getValue(), out);
                separator = ",";
            }
            out.append(((Map<?, ?>) tree).isEmpty() ? "{}" : "}");
        } else if (tree instanceof Iterable) {
            String separator = "";
            out.append('[');
            for (Object item : (Iterable<?>) tree) {
                out.append(separator);
                write(item, out);
                separator = ",";
            }
            out.append(']');
        } else if (tree instanceof CharSequence) {
            writeString(tree.toString(), out);
        } else if (tree == null || tree instanceof Number || tree instanceof Boolean) {
            out.append(tree);
        } else {
            throw new IllegalArgumentException("no JSON form: " + tree.getClass());
        }
    }

    private static void writeString(String text, StringBuilder out) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char unit = text.charAt(i);
            if (unit == '"' || unit == '\\') {
                out.append('\\').append(unit);
            } else if (unit < ' ' || unit > '~') {
                out.append(String.format("\\u%04x", (int) unit));
            } else {
                out.append(unit);
            }
        }
        out.append('"');
    }
}
