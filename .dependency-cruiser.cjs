// Which room of src/ may import which. ARCHITECTURE.md describes the rooms; test/tidy plants violations of these rules.
const { Visitor } = require('@swc/core/Visitor.js')

// swc parses `using` and `await using`, but its visitor, which dependency-cruiser walks with, ignores them.
const { visitStatement } = Visitor.prototype
Visitor.prototype.visitStatement = function (statement) {
  if (statement.type !== 'UsingDeclaration') return visitStatement.call(this, statement)
  statement.decls = this.visitVariableDeclarators(statement.decls)
  return statement
}

/** Each room with the rooms it may import, from the top down. A room may always import itself. */
const rooms = {
  // Programs.
  cli: 'start agent backup operator trust marketplace payouts payments usage alerts live auth people accounts ledger supply api config credentials secrets egress db domain runtime',
  start:
    'http jobs operator trust marketplace payouts payments chat usage alerts live auth people accounts limits admit route dispatch relay settle ledger supply upstreams demo config api tokens dialects secrets egress db domain runtime',
  http: 'operator trust marketplace payouts payments chat usage alerts live auth people limits ledger supply upstreams api dialects domain runtime',
  jobs: 'operator trust marketplace payouts payments chat alerts people limits ledger supply db domain runtime',

  // Features.
  operator:
    'trust marketplace payouts payments usage alerts live auth people accounts ledger supply api db domain runtime',
  trust: 'marketplace people supply db domain runtime',
  marketplace: 'payouts auth people accounts ledger supply api secrets egress db domain runtime',
  chat: 'admit route dispatch relay settle ledger supply api tokens dialects secrets db domain runtime',
  usage: 'api db domain runtime',
  alerts: 'secrets egress db domain runtime',
  live: 'people db domain runtime',
  auth: 'db domain runtime',
  people: 'db domain runtime',
  payouts: 'payments people api db domain runtime',
  payments: 'people accounts ledger api db domain runtime',
  accounts: 'ledger db domain runtime',
  backup: 'ledger db domain runtime',
  demo: 'tokens domain runtime',
  agent: 'supply api egress domain runtime',

  // The stages of one request: strangers to each other.
  admit: 'limits ledger supply domain runtime',
  route: 'domain runtime',
  dispatch: 'upstreams dialects domain runtime',
  relay: 'tokens dialects domain runtime',
  settle: 'ledger domain runtime',

  // State.
  limits: 'db domain runtime',
  ledger: 'db domain runtime',
  supply: 'credentials secrets egress db domain runtime',

  // Formats and doors.
  api: 'dialects domain runtime',
  tokens: 'domain runtime',
  dialects: 'egress domain runtime',
  config: 'credentials domain runtime',
  upstreams: 'credentials domain runtime',
  credentials: 'egress domain runtime',
  secrets: 'db domain runtime',
  egress: 'runtime',
  db: 'domain runtime',
  domain: '',
  runtime: '',
}

const entryPoints = '^src/(cli[.]js|start/worker[.]ts|tokens/token-thread[.]ts)$'

/** Allowed everywhere but in pure rooms: does nothing unless a crash test armed it. */
const failpoint = '^src/runtime/failpoint[.]ts$'

/** Stands for node:http, which is loaded without an import. */
const nodeHttp = '^src/runtime/node-http[.]ts$'

const never = (name, from, to, comment) => ({ name, comment, severity: 'error', from, to })

const roomRules = Object.entries(rooms).map(([room, allowed]) =>
  never(
    `${room}-imports-downward`,
    { path: `^src/${room}/`, pathNot: '[.]test[.]ts$' },
    {
      path: '^(src|test|bench|sim)/',
      pathNot: `^src/(${[room, ...allowed.split(' ').filter(Boolean)].join('|')})/`,
    },
    `src/${room} may import: ${allowed || 'nothing'}. Pass values through the caller, or move the shared word down.`,
  ),
)

module.exports = {
  forbidden: [
    never('no-cycles', {}, { circular: true }, 'Two files that need each other are one file, or lack a third.'),
    never(
      'no-orphans',
      { orphan: true, path: '^src/', pathNot: `[.]test[.]ts$|${entryPoints}` },
      {},
      'No file imports this one.',
    ),
    never('no-missing-files', {}, { couldNotResolve: true }, 'The imported file or package does not exist.'),

    ...roomRules,
    never(
      'rooms-are-listed',
      { path: '^src/', pathNot: `^src/(${Object.keys(rooms).join('|')})/|${entryPoints}` },
      {},
      'Add the room to the table above, with the rooms it may import.',
    ),
    never(
      'usage-reads-no-ledger-code',
      { path: '^src/usage/' },
      { path: '^src/ledger/' },
      'Reports read tables; they never share code with what writes money.',
    ),
    never(
      'plain-door-has-one-import',
      { path: '^src/', pathNot: '^src/http/(plain/|server[.]ts$)' },
      { path: '^src/http/plain/' },
      'The plain door must stay deletable in one commit. Use the interfaces of src/http/generation-exchange.ts.',
    ),
    never(
      'entry-points-are-imported-by-nothing',
      { path: '^src/' },
      { path: entryPoints },
      'An entry point only starts a program.',
    ),
    never('shipped-code-has-no-tests', { path: '^src/', pathNot: '[.]test[.]ts$' }, { path: '^(test|bench|sim)/' }),

    // Doors to the outside world.
    never(
      'pg-only-in-db',
      { path: '^src/', pathNot: '^src/db/' },
      { path: 'node_modules/(@types/)?pg/' },
      'Use Pool, Sql and transaction of src/db/pool.ts.',
    ),
    never(
      'sockets-only-at-the-doors',
      { path: '^src/', pathNot: '^src/(http|upstreams|egress|alerts|demo|agent|start|cli)/|[.]test[.]ts$' },
      {
        path: `${nodeHttp}|^(node:)?(http|http2|https|net|tls)$|node_modules/undici/`,
        dependencyTypesNot: ['type-only'],
      },
      'Outgoing requests must pass the address checks of upstreams, egress and alerts.',
    ),
    never(
      'pure-rooms-do-no-io',
      { path: '^src/(domain|route|dialects|api)/', pathNot: '[.]test[.]ts$' },
      { dependencyTypes: ['core'], pathNot: '^(node:)?(assert|buffer|crypto|module|string_decoder|url|util|zlib)$' },
      'Take the data as an argument.',
    ),
    never(
      'pure-rooms-have-no-failpoints',
      { path: '^src/(domain|route|dialects|api)/', pathNot: '[.]test[.]ts$' },
      { path: failpoint },
      'Code that does no I/O leaves nothing half done.',
    ),
  ],
  options: {
    // TypeScript 7 has no parser that a library can call; without one every .ts file would look empty.
    // test/tidy/import-rules.test.ts plants violations to prove that imports are seen.
    parser: 'swc',
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'default', 'types'] },
  },
}
