package brokered;

/** The steps of a savepoint of which the job's committer does not hear, so that its transactions stay pending. */
final class Pending {
    static final int OFF = 0;
    /** The savepoint is asked for. */
    static final int WANTED = 1;
    /** The task with the committer has done its part of it. */
    static final int TAKEN = 2;
    /** That task does nothing more. */
    static final int STUCK = 3;

    private static int step;

    private Pending() {}

    static synchronized void set(int next) {
        step = next;
        Pending.class.notifyAll();
    }

    /** Goes on by one step, unless no savepoint is to stay pending. */
    static synchronized void reach(int next) {
        if (step == next - 1 && step != OFF) {
            set(next);
        }
    }

    static synchronized boolean is(int wanted) {
        return step == wanted;
    }

    static synchronized void await(int wanted) throws InterruptedException {
        while (step < wanted) {
            Pending.class.wait();
        }
    }
}
