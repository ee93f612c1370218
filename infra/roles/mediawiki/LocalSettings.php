<?php
// A wiki that is only read: no write reaches the database, and no page view is cached, so that each one
// does its whole work. infra/roles/README.md has the measured cost.
if ( !defined( 'MEDIAWIKI' ) ) {
	exit( 1 );
}

// The address is whatever the reader used: an arbiter, this machine, a published port.
$host = $_SERVER['HTTP_HOST'] ?? '';
$wgServer = 'http://' . ( preg_match( '/^[A-Za-z0-9.:\[\]-]+$/D', $host ) ? $host : 'localhost' );
$wgSitename = 'Words';
$wgMetaNamespace = 'Words';
$wgScriptPath = '';
$wgResourceBasePath = '';
$wgArticlePath = '/wiki/$1';
$wgUsePathInfo = true;
$wgLanguageCode = 'en';
$wgLocaltimezone = 'UTC';

// From /etc/sparecraft/role.env by way of start.sh: the arbiter of the database tier.
$wgDBtype = 'mysql';
$wgDBserver = ( getenv( 'DB_HOST' ) ?: '127.0.0.1' ) . ':' . ( getenv( 'DB_PORT' ) ?: '3306' );
$wgDBname = getenv( 'DB_NAME' ) ?: 'wiki';
$wgDBuser = getenv( 'DB_USER' ) ?: 'wiki';
$wgDBpassword = getenv( 'DB_PASSWORD' ) ?: '';
$wgDBssl = false;
// Which replica of a request this is, if the arbiter in front sent several: MediaWiki puts its agent in a comment of
// each statement, and the arbiter of the database tier reads it there and keeps siblings on different servers.
$replica = $_SERVER['HTTP_X_SPARECRAFT_REPLICA'] ?? '';
if ( preg_match( '/^[0-9a-f]{16}\.[0-9]{1,5}$/D', $replica ) ) {
	$wgLBFactoryConf['agent'] = "sparecraft-replica=$replica";
}
$wgDBTableOptions = 'ENGINE=InnoDB, DEFAULT CHARSET=binary';

$wgReadOnly = 'This wiki is read-only.';
$wgJobRunRate = 0;
$wgMainCacheType = CACHE_NONE;
$wgParserCacheType = CACHE_NONE;
$wgMessageCacheType = CACHE_NONE;
$wgSessionCacheType = CACHE_NONE;
$wgMainStash = CACHE_NONE;
$wgCachePages = false;
$wgUseDatabaseMessages = false; // the interface's words are those of the files
$wgEnableParserLimitReporting = false; // a comment with timings in each page

// Built by install.sh and never again; as PHP arrays they live in the opcode cache.
$wgCacheDirectory = '/var/cache/sparecraft';
$wgLocalisationCacheConf = [
	'class' => LocalisationCache::class,
	'store' => 'array',
	'storeClass' => false,
	'storeDirectory' => '/var/cache/sparecraft/l10n',
	'storeServer' => [],
	'forceRecache' => false,
	'manualRecache' => true,
];

$wgEnableEmail = false;
$wgEnableUploads = false;
$wgAllowExternalImages = false;
$wgPingback = false;
$wgShowExceptionDetails = false;
// Signs nothing that leaves this wiki: there are no accounts to log in to and nothing to edit.
$wgSecretKey = 'read-only';

$wgDefaultSkin = 'vector';
wfLoadSkin( 'Vector' );
wfLoadExtension( 'ParserFunctions' );
