package compatibility;

import java.util.List;
import java.util.concurrent.Callable;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;

/** Types of Scala, by reflection: Flink 2 has no Scala API. */
final class ScalaCases {
    private static final String TYPEUTILS = "org.apache.flink.api.scala.typeutils.";

    private ScalaCases() {}

    static void add(List<Case> cases) {
        add(
                cases,
                "case class scala.Tuple2(String,Integer)",
                () -> made(TYPEUTILS + "ScalaCaseClassSerializer", Class.forName("scala.Tuple2"), new TypeSerializer<?>[] {StringSerializer.INSTANCE, IntSerializer.INSTANCE}),
                () -> made("scala.Tuple2", "a", 3));
        add(cases, "Option<String>", () -> made(TYPEUTILS + "OptionSerializer", StringSerializer.INSTANCE), () -> made("scala.Some", "a"));
        add(
                cases,
                "Either<String,Long>",
                () -> made(TYPEUTILS + "EitherSerializer", StringSerializer.INSTANCE, LongSerializer.INSTANCE),
                () -> made("scala.util.Left", "a"));
        add(cases, "Unit", () -> made(TYPEUTILS + "UnitSerializer"), () -> Class.forName("scala.runtime.BoxedUnit").getField("UNIT").get(null));
        add(cases, "generic scala.Option", () -> Types.GENERIC(Class.forName("scala.Option")), () -> made("scala.Some", "a"));
        add(cases, "generic Object with scala.Tuple2", () -> Types.GENERIC(Object.class), () -> made("scala.Tuple2", "a", 3));
    }

    private static void add(List<Case> cases, String name, Callable<?> type, Callable<?> value) {
        cases.add(new Case("Scala", "Scala " + name, false, type, type, value));
    }

    private static Object made(String name, Object... arguments) throws Exception {
        return Class.forName(name).getConstructors()[0].newInstance(arguments);
    }
}
