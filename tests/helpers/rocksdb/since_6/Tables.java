import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.rocksdb.*;

/** Random options for tables, of those that RocksDB 6.20 and later have in Java. */
final class Tables {
    static BlockBasedTableConfig table(Random random, ColumnFamilyOptions options) {
        ChecksumType[] checksums = ChecksumType.values();
        BlockBasedTableConfig table =
                new BlockBasedTableConfig()
                        .setFormatVersion(random.nextInt(6))
                        .setBlockSize(1L << (6 + random.nextInt(10)))
                        .setBlockRestartInterval(1 << random.nextInt(5))
                        .setIndexBlockRestartInterval(1 + random.nextInt(4) * 5)
                        .setDataBlockIndexType(
                                random.nextInt(3) == 0
                                        ? DataBlockIndexType.kDataBlockBinaryAndHash
                                        : DataBlockIndexType.kDataBlockBinarySearch)
                        .setDataBlockHashTableUtilRatio(0.75)
                        .setMetadataBlockSize(1L << (6 + random.nextInt(7)))
                        .setUseDeltaEncoding(random.nextInt(4) != 0);
        if (table.formatVersion() > 0) {
            table.setChecksumType(checksums[random.nextInt(checksums.length)]);
        }
        if (random.nextBoolean()) {
            table.setFilterPolicy(new BloomFilter(10, false));
        }
        IndexType[] types = IndexType.values();
        table.setIndexType(types[random.nextInt(types.length)]);
        if (table.indexType() == IndexType.kTwoLevelIndexSearch) {
            table.setPartitionFilters(random.nextBoolean());
        } else if (table.indexType() == IndexType.kHashSearch) {
            options.useFixedLengthPrefixExtractor(1);
        }
        return table;
    }

    static IngestExternalFileOptions ingestion(Random random) {
        return new IngestExternalFileOptions().setMoveFiles(true).setWriteGlobalSeqno(random.nextBoolean());
    }

    static boolean ingestsAndDeletesRanges() {
        return true;
    }

    static BlockBasedTableConfig filtered() {
        return new BlockBasedTableConfig().setFilterPolicy(new BloomFilter(10, false));
    }

    /** The column families that a database's OPTIONS file tells of. */
    static List<ColumnFamilyDescriptor> told(String database) throws RocksDBException {
        List<ColumnFamilyDescriptor> told = new ArrayList<>();
        try (ConfigOptions config = new ConfigOptions();
                DBOptions options = new DBOptions()) {
            OptionsUtil.loadLatestOptions(config, database, options, told);
        }
        return told;
    }

    static void verify(RocksDB db) throws RocksDBException {
        db.verifyChecksum();
    }

    private Tables() {}
}
