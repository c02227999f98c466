package compatibility;

import java.util.List;
import java.util.Set;
import org.apache.flink.api.java.tuple.Tuple2;

/** Classes that change, as the new job has them. */
public final class Evolving {
    private Evolving() {}

    public enum CReorder {
        C,
        B,
        A
    }

    public enum CAppend {
        A,
        B,
        C
    }

    public enum CMiddle {
        A,
        B,
        C
    }

    public enum CRemove {
        A,
        C
    }

    public enum CRename {
        A,
        BB
    }

    public enum CRenameCase {
        A,
        b
    }

    public static class In1 {
        public String p;
        public int q;
    }

    public static class EAdded {
        public String a;
        public int b;
        public Long c;
    }

    public static class EAddedPrimitive {
        public String a;
        public long c;
    }

    public static class ERemoved {
        public String a;
    }

    public static class EType {
        public String a;
        public long b;
    }

    public static class ENarrowed {
        public String a;
        public int b;
    }

    public static class ERenamed {
        public String a;
        public int bb;
    }

    public static class EBoxed {
        public String a;
        public Integer b;
    }

    public static class EReordered {
        public int b;
        public String a;
    }

    public static class EAddList {
        public String a;
        public List<String> l;
    }

    public static class EListRemoved {
        public String a;
    }

    public static class EListToArray {
        public String[] l;
    }

    public static class EListToSet {
        public Set<String> l;
    }

    public static class EArrayListToList {
        public List<String> l;
    }

    public static class EStringToEnum {
        public Types.Color a;
    }

    public static class ENestAdded {
        public In1 i;
        public int k;
    }

    public static class EListNest {
        public List<In1> i;
        public int k;
    }

    public static class EArrayNest {
        public In1[] i;
    }

    public static class EPojoToKryoField {
        public Types.Gen g;
    }

    public static class EKryoFieldClass {
        public Types.GenLong g;
    }

    public static class EKryoAdded {
        public String a;
        public Types.Gen g;
    }

    public static class EKryoRemoved {
        public String a;
    }

    public static class EUuidRemoved {
        public String a;
    }

    public static class ETwoChanges {
        public String a;
        public Integer b;
        public String d;
    }

    public static class EEnumField {
        public CAppend c;
        public int n;
    }

    public static class EEnumFieldRemoved {
        public CRemove c;
        public int n;
    }

    public static class ETupleField {
        public Tuple2<String, Long> t;
    }

    public static class Base {
        public String id;
    }

    public static class Sub extends Base {
        public int n;
    }

    public static class SubGrown extends Base {
        public int n;
        public String more;
    }

    public static class SupB {
        public int u;
    }

    public static class ESuper extends SupB {
        public int a;
    }

    public static class EToKryo {
        public int a;

        public EToKryo(int a) {
            this.a = a;
        }
    }

    public static class EFromKryo {
        public int a;
    }

    public static class GenAdded {
        private final int n;
        private final String s;

        public GenAdded(int n, String s) {
            this.n = n;
            this.s = s;
        }
    }

    public static class GenRemoved {
        private final int n;

        public GenRemoved(int n) {
            this.n = n;
        }
    }

    public static class GenRenamed {
        private final int n;
        private final int z;

        public GenRenamed(int n, int z) {
            this.n = n;
            this.z = z;
        }
    }

    public record RAdd(String a, int b, Long c) {}

    public record RRemoved(String a) {}
}
