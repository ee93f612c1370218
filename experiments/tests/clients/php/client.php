<?php
// An ordinary user of PHP's PDO: CLIENT PORT READS. Prints the version of PHP.
declare(strict_types=1);

function check(mixed $got, mixed $expected): void
{
    if ($got !== $expected) {
        throw new RuntimeException('expected ' . var_export($expected, true) . ', got ' . var_export($got, true));
    }
}

[, , $port, $reads] = $argv;
foreach ([true, false] as $emulated) {
    $options = [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_EMULATE_PREPARES => $emulated];
    $connection = new PDO("mysql:host=127.0.0.1;port=$port;dbname=wiki;charset=utf8mb4", 'wiki', 'wiki-read', $options);
    for ($number = 0; $number < $reads / 2; $number++) {
        $select = $connection->prepare('SELECT title FROM page WHERE id = ?');
        $select->execute([2]);
        check($select->fetchAll(PDO::FETCH_COLUMN), ['Two']);
        if ($number % 10 !== 0) {
            continue;
        }
        // A transaction that writes and reads what it wrote.
        $connection->beginTransaction();
        $connection->prepare('INSERT INTO note (text) VALUES (?)')->execute(['of PHP']);
        $select = $connection->prepare('SELECT text FROM note WHERE id = ?');
        $select->execute([$connection->lastInsertId()]);
        check($select->fetchAll(PDO::FETCH_COLUMN), ['of PHP']);
        $connection->commit();
    }
}
echo PHP_VERSION, "\n";
