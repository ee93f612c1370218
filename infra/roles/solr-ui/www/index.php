<?php
// A page of search results: one query to Solr (sPARE, Fig. 9). GET /?q=WORDS
declare(strict_types=1);

const ROWS = 40;
const SNIPPETS = 3;
const LIMIT_MS = 5000;

/** The escaped text. */
function text(string $raw): string
{
    return htmlspecialchars($raw, ENT_QUOTES | ENT_SUBSTITUTE, 'UTF-8');
}

/** Answers with an error page and ends. */
function refuse(int $status, string $why): never
{
    http_response_code($status);
    echo '<!DOCTYPE html><title>Error</title><p>', text($why), "</p>\n";
    exit;
}

/** Solr's excerpt, escaped, its marked words in bold. */
function excerpt(string $raw): string
{
    return strtr(text($raw), ['&lt;em&gt;' => '<b>', '&lt;/em&gt;' => '</b>']);
}

/** The arbiter's stamp, for the search tier's: it keeps the replicas of one page on different servers. */
function stamp(): array
{
    $stamp = $_SERVER['HTTP_X_SPARECRAFT_REPLICA'] ?? '';
    return preg_match('/^[0-9a-f]{16}\.[0-9]{1,5}$/', $stamp) ? ["X-Sparecraft-Replica: $stamp"] : [];
}

/** Solr's answer to a search for these words in headwords and texts, with excerpts. */
function search(string $words): array
{
    $query = http_build_query([
        'q' => $words, 'rows' => ROWS, 'fl' => 'id,headword,source',
        'hl' => 'true', 'hl.fl' => 'text', 'hl.snippets' => SNIPPETS,
    ]);
    $url = sprintf('http://%s:%s/solr/dictionary/select?%s', getenv('SOLR_HOST'), getenv('SOLR_PORT'), $query);
    $curl = curl_init($url);
    curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true, CURLOPT_TIMEOUT_MS => LIMIT_MS, CURLOPT_NOSIGNAL => true]);
    curl_setopt($curl, CURLOPT_HTTPHEADER, stamp());
    $body = curl_exec($curl);
    $status = curl_getinfo($curl, CURLINFO_RESPONSE_CODE);
    if ($body === false || $status !== 200) {
        refuse(502, "expected an answer of the search tier, got status $status: " . curl_error($curl));
    }
    return json_decode($body, true, 64, JSON_THROW_ON_ERROR);
}

header('Content-Type: text/html; charset=utf-8');
$words = trim((string) ($_GET['q'] ?? ''));
if ($words === '' || strlen($words) > 200) {
    refuse(400, 'expected ?q=WORDS, 1 to 200 bytes');
}
$answer = search($words);
$found = $answer['response'];
?>
<!DOCTYPE html>
<html lang="en">
<title><?= text($words) ?>: <?= (int) $found['numFound'] ?> entries</title>
<h1><?= text($words) ?></h1>
<form><input name="q" value="<?= text($words) ?>"> <button>Search</button></form>
<ol>
<?php foreach ($found['docs'] as $entry): ?>
<li><b><?= text($entry['headword']) ?></b> (<?= text($entry['source']) ?>): <?= excerpt(implode(' … ', $answer['highlighting'][$entry['id']]['text'] ?? [])) ?></li>
<?php endforeach; ?>
</ol>
</html>
