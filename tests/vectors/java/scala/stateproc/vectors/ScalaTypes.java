package stateproc.vectors;

import java.util.Arrays;
import java.util.List;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;
import scala.Option;
import scala.Some;
import scala.Tuple2;
import scala.Tuple3;

/** Serializers of the Scala API (of the Scala table API since 2.0). */
public final class ScalaTypes {
    private static final String OLD = "org.apache.flink.api.scala.typeutils.";
    private static final String HOME = Reflect.exists(OLD + "OptionSerializer") ? OLD : "org.apache.flink.table.api.typeutils.";

    private ScalaTypes() {}

    /** A Scala enumeration, as Scala sees one. */
    public static class Weekday extends scala.Enumeration {
        private static final long serialVersionUID = 1;
        public final Value monday = Value(1, "Monday");
        public final Value sunday = Value(7, "Sunday");
        public static final Weekday MODULE$ = new Weekday();
    }

    static void write(Vectors vectors) throws Exception {
        TypeSerializer<?> text = StringSerializer.INSTANCE;
        TypeSerializer<?> number = LongSerializer.INSTANCE;
        vectors.attempt("Scala Option", () -> vectors.addPairs("Scala Option",
                Reflect.create(HOME + "OptionSerializer", text), Some.apply("é"), "é", Option.empty(), null));
        vectors.attempt("Scala Either", () -> vectors.addPairs("Scala Either", Reflect.create(HOME + "EitherSerializer", number, text),
                scala.util.Left.apply(5L), Json.object("left", 5), scala.util.Right.apply("é"), Json.object("right", "é")));
        vectors.attempt("Scala Unit", () -> vectors.addPairs("Scala Unit", Reflect.create(HOME + "UnitSerializer"),
                scala.runtime.BoxedUnit.UNIT, null));
        vectors.attempt("Scala case class", () -> caseClasses(vectors, text, number));
        vectors.attempt("Scala Try", () -> vectors.addPairs("Scala Try", tries(text),
                new scala.util.Success<>("é"), Json.object("success", "é"),
                new scala.util.Failure<>(new IllegalStateException("broken")),
                Json.object("failure", Encode.value(new IllegalStateException("broken")))));
        vectors.attempt("Scala Enumeration", () -> vectors.addPairs("Scala Enumeration",
                Reflect.create(HOME + "EnumValueSerializer", Weekday.MODULE$),
                Weekday.MODULE$.monday, "Monday", Weekday.MODULE$.sunday, "Sunday"));
        vectors.attempt("Scala Traversable", () -> traversable(vectors));
    }

    private static void caseClasses(Vectors vectors, TypeSerializer<?> text, TypeSerializer<?> number) throws Exception {
        String name = HOME + "ScalaCaseClassSerializer";
        vectors.addPairs("Scala Tuple2",
                Reflect.create(name, Tuple2.class, new TypeSerializer<?>[] {text, number}),
                new Tuple2<>("é", 5L), Json.object("_1", "é", "_2", 5L), new Tuple2<>(null, -5L), Json.object("_1", null, "_2", -5L));
        TypeSerializer<?> option = Reflect.create(HOME + "OptionSerializer", IntSerializer.INSTANCE);
        vectors.addPairs("Scala Tuple3 with Option",
                Reflect.create(name, Tuple3.class, new TypeSerializer<?>[] {number, option, text}),
                new Tuple3<>(1L, Option.empty(), "a"), Json.object("_1", 1L, "_2", null, "_3", "a"),
                new Tuple3<>(1L, Some.apply(7), ""), Json.object("_1", 1L, "_2", 7, "_3", ""));
    }

    private static TypeSerializer<?> tries(TypeSerializer<?> text) throws Exception {
        TypeSerializer<?> throwable = KryoValues.serializer(Throwable.class);
        try {
            return Reflect.create(HOME + "TrySerializer", text, throwable);
        } catch (NoSuchMethodException other) {
            return Reflect.create(HOME + "TrySerializer", text, Vectors.config());
        }
    }

    private static void traversable(Vectors vectors) throws Exception {
        String factory = "implicitly[scala.collection.generic.CanBuildFrom[Seq[String], String, Seq[String]]]";
        TypeSerializer<?> serializer = Reflect.create(HOME + "TraversableSerializer", StringSerializer.INSTANCE, factory);
        List<Object> strings = Arrays.asList("a", null, "é");
        scala.collection.mutable.ListBuffer<Object> buffer = new scala.collection.mutable.ListBuffer<>();
        for (Object item : strings) {
            Reflect.call(buffer, "$plus$eq", item);
        }
        vectors.addPairs("Scala Traversable", serializer, buffer.toList(), strings);
    }
}
