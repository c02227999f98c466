package stateproc.vectors;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.types.IntValue;
import org.apache.flink.types.LongValue;
import org.apache.flink.types.NullValue;
import org.apache.flink.types.StringValue;

/** Gelly's arrays of Value types (until 1.16). */
final class GellyTypes {
    private static final String HOME = "org.apache.flink.graph.types.valuearray.";

    private GellyTypes() {}

    static void write(Vectors vectors) {
        add(vectors, "Int", Arrays.asList(1, -1), new IntValue(1), new IntValue(-1));
        add(vectors, "Long", Arrays.asList(1L, Long.MIN_VALUE), new LongValue(1), new LongValue(Long.MIN_VALUE));
        add(vectors, "String", Arrays.asList("a", "é"), new StringValue("a"), new StringValue("é"));
        add(vectors, "Null", Arrays.asList(null, null), NullValue.getInstance(), NullValue.getInstance());
    }

    private static void add(Vectors vectors, String kind, List<?> tree, Object... values) {
        vectors.attempt(kind + "ValueArray", () -> {
            TypeSerializer<?> serializer = Reflect.create(HOME + kind + "ValueArraySerializer");
            Object array = Reflect.create(HOME + kind + "ValueArray");
            for (Object value : values) {
                Reflect.call(array, "add", value);
            }
            vectors.addPairs(kind + "ValueArray", serializer, Reflect.create(HOME + kind + "ValueArray"), new ArrayList<>(), array, tree);
        });
    }
}
