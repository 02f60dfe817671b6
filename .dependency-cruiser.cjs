// Which folder may import which. Each rule's name says the idea; ARCHITECTURE.md tells why.
const { Visitor } = require('@swc/core/Visitor.js')

// swc parses `using` and `await using`, but its visitor, which dependency-cruiser walks with, stops at them.
const { visitStatement } = Visitor.prototype
Visitor.prototype.visitStatement = function (statement) {
  if (statement.type !== 'UsingDeclaration') return visitStatement.call(this, statement)
  statement.decls = this.visitVariableDeclarators(statement.decls)
  return statement
}

const stages = 'auth|admit|route|dispatch|relay|settle|usage'
const roots = '^src/(main|primary|worker|prepare|announce|serve|compose|supply)[.]ts$|^src/cli[.]js$|^src/cli/'

/** May stand anywhere but in the pure folders: it does nothing unless a test of crashes armed it. */
const failpoint = '^src/failpoint[.]ts$'

/** Stands for node:http, which is not imported. */
const nodeHttp = '^src/node-http[.]ts$'

/** Files of `from` import, of our own code, only what matches `to`, and failpoints. Who may use HTTP is a rule of its own. */
const only = (name, from, to, comment) => ({
  name,
  comment,
  severity: 'error',
  from: { path: from, pathNot: '[.]test[.]ts$' },
  to: { path: '^(src|test|bench|console)/', pathNot: `${to}|${failpoint}|${nodeHttp}` },
})

const never = (name, from, to, comment) => ({ name, comment, severity: 'error', from, to })

module.exports = {
  forbidden: [
    never('no-cycles', {}, { circular: true }, 'Two files that need each other are one file, or lack a third.'),
    never(
      'no-orphans',
      { orphan: true, path: '^src/', pathNot: `[.]test[.]ts$|${roots}` },
      {},
      'Nobody needs this file.',
    ),
    never('no-missing-files', {}, { couldNotResolve: true }, 'The imported file or package does not exist.'),

    // Bottom: words, the OpenAI dialect, storage.
    only('domain-imports-nothing', '^src/domain/', '^src/domain/', 'The words of the product depend on nothing.'),
    only('wire-speaks-domain', '^src/wire/', '^src/(wire|domain)/', 'A dialect translates; it does not act.'),
    only('db-knows-no-business', '^src/db/', '^src/db/', 'Storage works for any product.'),
    only('ledger-sits-on-db', '^src/ledger/', '^src/(ledger|journal|db|domain)/', 'Money depends on no other module.'),
    only('market-sits-on-db', '^src/market/', '^src/(market|db|domain|wire)/', 'Supply knows nothing of customers.'),
    only('journal-knows-no-business', '^src/journal/', '^src/(journal/|domain/|db/file-lock)', 'It keeps bytes.'),
    only('alerts-read-the-books', '^src/alerts/', '^src/(alerts|db|domain|market)/', 'Telling changes nothing.'),
    only('quota-sits-on-db', '^src/quota/', '^src/(quota|db|domain)/', 'Limits only count.'),
    only(
      'config-speaks-domain',
      '^src/config(/|[.]ts$)',
      '^src/(config/|config[.]ts$|domain/)',
      'Settings are read before anything exists.',
    ),
    only(
      'demo-is-an-upstream',
      '^src/demo/',
      '^src/(demo|wire|domain)/',
      'The demo is reached over a socket, like a stranger.',
    ),

    // Middle: stages are strangers to each other; each has a short list of what it may touch.
    never(
      'stages-are-strangers',
      { path: `^src/(${stages})/` },
      { path: `^src/(${stages})/`, pathNot: '^src/$1/' },
      'Stages hand on values through the conductor; put the shared word into domain/.',
    ),
    only('auth-may', '^src/auth/', '^src/(auth|domain|db)/'),
    only('admit-may', '^src/admit/', '^src/(admit|domain|market|quota|ledger)/'),
    only('route-is-pure', '^src/route/', '^src/(route|domain)/'),
    only('dispatch-touches-no-money', '^src/dispatch/', '^src/(dispatch|domain|wire|market)/'),
    only('relay-touches-no-database', '^src/relay/', '^src/(relay|domain|wire)/'),
    only('settle-may', '^src/settle/', '^src/(settle|domain|ledger|db)/'),
    only('idempotency-may', '^src/idempotency/', '^src/(idempotency|domain|ledger|market|db)/'),
    only('usage-reads-only', '^src/usage/', '^src/(usage/|domain/|wire/|db/|quota/|ledger/balance)'),

    // Top: one conductor, thin http, composition by hand.
    only('conductor-may', '^src/chat/', '^src/(chat|domain|wire|admit|route|dispatch|relay|settle|idempotency)/'),
    only(
      'http-never-sees-db',
      '^src/http/',
      '^src/(http|chat|usage|alerts|auth|market|ledger|quota|wire|domain)/|^src/log[.]ts$|^package[.]json$',
    ),
    only('workers-serve-anything', '^src/workers/', '^src/workers/', 'Processes are kept alive whatever they serve.'),
    only('jobs-may', '^src/jobs/', '^src/(jobs|alerts|domain|ledger|market|quota|db|idempotency)/'),
    never(
      'roots-are-roots',
      { path: '^src/', pathNot: roots },
      { path: roots },
      'What everything hangs from is imported by nothing.',
    ),
    never(
      'config-is-passed-in',
      { path: '^src/', pathNot: '^src/[^/]+[.]ts$|^src/(cli|config)/' },
      { path: '^src/config(/|[.]ts$)' },
      'Take the values you need as arguments.',
    ),
    never('shipped-code-has-no-tests', { path: '^src/', pathNot: '[.]test[.]ts$' }, { path: '^(test|bench|console)/' }),

    // Doors to the outside world.
    never(
      'pg-only-in-db',
      { path: '^src/', pathNot: '^src/db/' },
      { path: 'node_modules/(@types/)?pg/' },
      'Use Pool, Sql and transaction of src/db/pool.ts.',
    ),
    never(
      'sockets-only-at-the-doors',
      { path: '^src/', pathNot: '^src/(http|dispatch|market|alerts|demo|cli)/|[.]test[.]ts$' },
      {
        path: `${nodeHttp}|^(node:)?(http|http2|https|net|tls)$|node_modules/undici/`,
        dependencyTypesNot: ['type-only'],
      },
      'What leaves the machine goes through the address checks of dispatch, market and alerts.',
    ),
    never(
      'pure-folders-do-no-io',
      { path: '^src/(domain|route|wire)/', pathNot: '[.]test[.]ts$' },
      { dependencyTypes: ['core'], pathNot: '^(node:)?(assert|buffer|crypto|module|string_decoder|url|util)$' },
      'Take the data as an argument.',
    ),

    never(
      'pure-folders-do-not-break',
      { path: '^src/(domain|route|wire)/', pathNot: '[.]test[.]ts$' },
      { path: failpoint },
      'What touches neither disk nor network leaves nothing half done.',
    ),

    // The console is a customer of the public API.
    never('console-sees-wire-types', { path: '^console/' }, { path: '^(src|test|bench)/', pathNot: '^src/wire/' }),
    never(
      'console-imports-server-types-only',
      { path: '^console/' },
      { path: '^src/', dependencyTypesNot: ['type-only'] },
    ),
    never(
      'features-are-strangers',
      { path: '^console/src/features/([^/]+)/' },
      { path: '^console/src/features/', pathNot: '^console/src/features/$1/' },
    ),
    never('console-flows-down', { path: '^console/src/(ui|api)' }, { path: '^console/src/(features|main)' }),
  ],
  options: {
    // TypeScript 7 has no parser that a library can call, and without one every .ts file would look empty.
    // test/tidy/import-rules.test.ts plants violations to prove that imports are seen.
    parser: 'swc',
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'default', 'types'] },
  },
}
