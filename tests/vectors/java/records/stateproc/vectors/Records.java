package stateproc.vectors;

import java.util.List;
import org.apache.flink.api.common.typeinfo.TypeInformation;

/** Java records, which the POJO serializer handles since 1.19. */
public final class Records {
    private Records() {}

    public record Point(int x, Long y, String label) {}

    public record Line(Point from, Point to, double[] weights, List<String> tags, Scalars.Color color) {}

    static void write(Vectors vectors) throws Exception {
        vectors.add("Record", Vectors.serializer(TypeInformation.of(Point.class)),
                new Point(1, 2L, "é"), new Point(-1, null, null), null);
        vectors.add("Record nested", Vectors.serializer(TypeInformation.of(Line.class)),
                new Line(new Point(1, 2L, "a"), null, new double[] {0.5}, null, Scalars.Color.GREEN),
                new Line(null, null, null, new java.util.ArrayList<>(List.of("t", "é")), null));
    }
}
