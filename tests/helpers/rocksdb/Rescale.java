import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.rocksdb.*;

/**
 * Databases as Flink makes them when it rescales: column families of two databases, clipped to a range of key groups
 * and imported into a third, which is then written to (RocksDBIncrementalRestoreOperation with ingest-db restore mode).
 *
 * <p>Same arguments and output as {@link Oracle}. Needs frocksdb 8.10.
 */
public final class Rescale {
    private static final int GROUPS = 6;
    private static final int ONCE_KEYS = 1000;
    private static final String STATE = "counts";

    public static void main(String[] args) throws Exception {
        RocksDB.loadLibrary();
        long first = Long.parseLong(args[1]);
        for (long seed = first; seed < first + Long.parseLong(args[2]); seed++) {
            Path directory = Path.of(args[0], Long.toString(seed));
            Files.createDirectories(directory);
            run(seed, directory);
        }
    }

    private static void run(long seed, Path directory) throws Exception {
        List<ExportImportFilesMetaData> exported = new ArrayList<>();
        for (int part = 0; part < 2; part++) {
            int group = part * GROUPS;
            Oracle oracle = new Oracle(seed * 3 + part, directory, group, GROUPS);
            Path database = directory.resolve("source-" + part);
            try (ColumnFamilyOptions columns = oracle.columnOptions();
                    Options options = new Options(new DBOptions().setCreateIfMissing(true), columns);
                    RocksDB db = RocksDB.open(options, database.toString());
                    WriteOptions write = new WriteOptions().setDisableWAL(true);
                    Checkpoint checkpoint = Checkpoint.create(db)) {
                for (int step = 0; step < 600; step++) {
                    oracle.step(db, write, db.getDefaultColumnFamily(), columns, step);
                }
                byte[] begin = {(byte) (group + seed % 3)};
                byte[] end = {(byte) (group + GROUPS - seed % 2)};
                db.clipColumnFamily(db.getDefaultColumnFamily(), begin, end);
                String export = directory.resolve("export-" + part).toString();
                exported.add(checkpoint.exportColumnFamily(db.getDefaultColumnFamily(), export));
            }
        }
        Oracle oracle = new Oracle(seed * 3 + 2, directory, 0, Oracle.KEY_GROUPS);
        // Keys of its own: a key that an imported file holds already must not be put again and then be deleted singly.
        // What is left of it would depend on which of the three a compaction has met.
        oracle.onceKeys = ONCE_KEYS;
        try (ColumnFamilyOptions columns = oracle.columnOptions();
                Options options = new Options(new DBOptions().setCreateIfMissing(true), columns);
                RocksDB db = RocksDB.open(options, directory.resolve("db").toString());
                WriteOptions write = new WriteOptions().setDisableWAL(true);
                ImportColumnFamilyOptions importing = new ImportColumnFamilyOptions().setMoveFiles(true);
                ColumnFamilyHandle family =
                        db.createColumnFamilyWithImport(
                                new ColumnFamilyDescriptor(STATE.getBytes("UTF-8"), columns), importing, exported);
                Checkpoint checkpoint = Checkpoint.create(db)) {
            for (int step = 0; step < seed % 4 * 100; step++) {
                oracle.step(db, write, family, columns, step);
            }
            checkpoint.createCheckpoint(directory.resolve("checkpoint").toString());
            Oracle.dump(db, family, directory.resolve(STATE + ".expected"));
        }
        for (String name : new String[] {"source-0", "source-1", "export-0", "export-1", "db"}) {
            if (Files.exists(directory.resolve(name))) {
                Oracle.delete(directory.resolve(name));
            }
        }
    }
}
