import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.rocksdb.*;

/**
 * Checkpoints of one database that share tables: {@code checkpoint-0} and {@code checkpoint-1} one after the other,
 * {@code checkpoint-2} of the first one restored and changed in another way, so that sequence numbers repeat.
 *
 * <p>Same arguments as {@link Oracle}; beside each checkpoint {@code <number>-counts.expected}.
 */
public final class Chain {
    private static final String STATE = "counts";

    private final Path directory;
    private final long seed;

    private Chain(Path directory, long seed) {
        this.directory = directory;
        this.seed = seed;
    }

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        long first = Long.parseLong(args[1]);
        for (long seed = first; seed < first + Long.parseLong(args[2]); seed++) {
            Path directory = Path.of(args[0], Long.toString(seed));
            Files.createDirectories(directory);
            Chain chain = new Chain(directory, seed);
            Path database = directory.resolve("db");
            chain.change(database, new Oracle(seed, directory, 0, Oracle.KEY_GROUPS), 0, (int) (seed % 7) * 120, 0);
            Path copy = directory.resolve("copy");
            copy(directory.resolve("checkpoint-0"), copy);
            chain.change(database, new Oracle(seed + 1_000_000, directory, 0, Oracle.KEY_GROUPS), 1, steps(seed), 1000);
            chain.change(copy, new Oracle(seed + 2_000_000, directory, 0, Oracle.KEY_GROUPS), 2, steps(seed + 1), 2000);
            Oracle.delete(database);
            Oracle.delete(copy);
        }
    }

    private static int steps(long seed) {
        return new int[] {1, 10, 60, 300}[(int) (seed % 4)];
    }

    /** Opens a database, changes it, and takes a checkpoint. {@code onceKeys}: the first key that is put only once. */
    private void change(Path database, Oracle oracle, int number, int steps, int onceKeys) throws Exception {
        oracle.onceKeys = onceKeys;
        List<ColumnFamilyHandle> handles = new ArrayList<>();
        try (ColumnFamilyOptions columns = oracle.columnOptions().setDisableAutoCompactions(seed % 3 > 0);
                DBOptions options = new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true);
                RocksDB db =
                        RocksDB.open(
                                options,
                                database.toString(),
                                List.of(
                                        new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, columns),
                                        new ColumnFamilyDescriptor(STATE.getBytes("UTF-8"), columns)),
                                handles);
                WriteOptions write = new WriteOptions().setDisableWAL(true);
                Checkpoint checkpoint = Checkpoint.create(db)) {
            ColumnFamilyHandle family = handles.get(1);
            for (int step = 0; step < steps; step++) {
                oracle.step(db, write, family, columns, number * 10_000 + step);
            }
            checkpoint.createCheckpoint(directory.resolve("checkpoint-" + number).toString());
            Oracle.dump(db, family, directory.resolve(number + "-" + STATE + ".expected"));
            handles.forEach(ColumnFamilyHandle::close);
        }
    }

    private static void copy(Path from, Path to) throws IOException {
        Files.createDirectories(to);
        try (Stream<Path> paths = Files.list(from)) {
            for (Path path : (Iterable<Path>) paths::iterator) {
                Files.copy(path, to.resolve(path.getFileName()));
            }
        }
    }
}
