package compatibility;

import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import org.apache.flink.api.java.tuple.Tuple2;

/** Classes that change, as the old job has them. */
public final class Evolving {
    private Evolving() {}

    public enum CReorder {
        A,
        B,
        C
    }

    public enum CAppend {
        A,
        B
    }

    public enum CMiddle {
        A,
        C
    }

    public enum CRemove {
        A,
        B,
        C
    }

    public enum CRename {
        A,
        B
    }

    public enum CRenameCase {
        A,
        B
    }

    public static class In1 {
        public String p;
    }

    public static class EAdded {
        public String a;
        public int b;
    }

    public static class EAddedPrimitive {
        public String a;
    }

    public static class ERemoved {
        public String a;
        public int b;
    }

    public static class EType {
        public String a;
        public int b;
    }

    public static class ENarrowed {
        public String a;
        public long b;
    }

    public static class ERenamed {
        public String a;
        public int b;
    }

    public static class EBoxed {
        public String a;
        public int b;
    }

    public static class EReordered {
        public String a;
        public int b;
    }

    public static class EAddList {
        public String a;
    }

    public static class EListRemoved {
        public String a;
        public List<String> l;
    }

    public static class EListToArray {
        public List<String> l;
    }

    public static class EListToSet {
        public List<String> l;
    }

    public static class EArrayListToList {
        public ArrayList<String> l;
    }

    public static class EStringToEnum {
        public String a;
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
        public Types.Addr g;
    }

    public static class EKryoFieldClass {
        public Types.Gen g;
    }

    public static class EKryoAdded {
        public String a;
    }

    public static class EKryoRemoved {
        public String a;
        public Types.Gen g;
    }

    public static class EUuidRemoved {
        public String a;
        public UUID u;
    }

    public static class ETwoChanges {
        public String a;
        public int b;
        public long c;
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
        public Tuple2<String, Integer> t;
    }

    public static class Base {
        public String id;
    }

    public static class Sub extends Base {
        public int n;
    }

    public static class SubGrown extends Base {
        public int n;
    }

    public static class SubGone extends Base {
        public int n;
    }

    public static class Gone {
        public int a;
    }

    public static class SupA {
        public int u;
    }

    public static class ESuper extends SupA {
        public int a;
    }

    public static class EToKryo {
        public int a;
    }

    public static class EFromKryo {
        public int a;

        public EFromKryo(int a) {
            this.a = a;
        }
    }

    public static class GenAdded {
        private final int n;

        public GenAdded(int n) {
            this.n = n;
        }
    }

    public static class GenRemoved {
        private final int n;
        private final String s;

        public GenRemoved(int n, String s) {
            this.n = n;
            this.s = s;
        }
    }

    public static class GenRenamed {
        private final int n;
        private final int o;

        public GenRenamed(int n, int o) {
            this.n = n;
            this.o = o;
        }
    }

    public record RAdd(String a, int b) {}

    public record RRemoved(String a, int b) {}
}
