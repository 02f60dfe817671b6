// Which wing and which room of src/ may import which. ARCHITECTURE.md describes them; test/tidy plants violations of these rules.
const { Visitor } = require('@swc/core/Visitor.js')

// swc parses `using` and `await using`, but its visitor, which dependency-cruiser walks with, ignores them.
const { visitStatement } = Visitor.prototype
Visitor.prototype.visitStatement = function (statement) {
  if (statement.type !== 'UsingDeclaration') return visitStatement.call(this, statement)
  statement.decls = this.visitVariableDeclarators(statement.decls)
  return statement
}

/** The wings from the top down, with their rooms. A wing imports those below it only. A wing without rooms is one. */
const wings = {
  cli: 'cli backup',
  start: 'start config',
  jobs: 'jobs',
  http: 'http',
  operator: 'operator',
  request: 'chat admit route dispatch relay settle limits',
  market: 'marketplace trust supply agent',
  money: 'payouts payments accounts ledger usage alerts',
  identity: 'people auth live',
  wire: 'api dialects upstreams demo-model tokens redaction credentials egress',
  base: 'secrets db domain runtime',
}

/** Each room with the rooms it may import, from the top down. A room may always import itself. */
const rooms = {
  // cli
  cli: 'backup start config operator marketplace trust supply agent payouts payments accounts ledger usage alerts people auth live api credentials egress secrets db domain runtime',
  backup: 'ledger secrets db domain runtime',
  // start
  start:
    'config jobs http operator chat admit route dispatch relay settle limits marketplace trust supply payouts payments accounts ledger usage alerts people auth live api dialects upstreams demo-model tokens redaction egress secrets db domain runtime',
  config: 'payouts payments credentials domain runtime',
  // jobs
  jobs: 'operator chat limits marketplace trust supply payouts payments ledger usage alerts people db domain runtime',
  // http
  http: 'operator chat limits marketplace trust supply payouts payments ledger usage alerts people auth live api dialects upstreams domain runtime',
  // operator
  operator:
    'marketplace trust supply payouts payments accounts ledger usage alerts people auth live api db domain runtime',
  // request
  chat: 'admit route dispatch relay settle supply ledger api dialects tokens secrets db domain runtime',
  admit: 'limits supply ledger domain runtime',
  route: 'domain runtime',
  dispatch: 'dialects upstreams domain runtime',
  relay: 'dialects tokens domain runtime',
  settle: 'ledger domain runtime',
  limits: 'db domain runtime',
  // market
  marketplace: 'supply payouts accounts ledger people auth api egress secrets db domain runtime',
  trust: 'marketplace supply people db domain runtime',
  supply: 'credentials egress secrets db domain runtime',
  agent: 'supply api egress domain runtime',
  // money
  payouts: 'payments people api db domain runtime',
  payments: 'accounts ledger people api db domain runtime',
  accounts: 'ledger people db domain runtime',
  ledger: 'db domain runtime',
  usage: 'api db domain runtime',
  alerts: 'egress secrets db domain runtime',
  // identity
  people: 'db domain runtime',
  auth: 'db domain runtime',
  live: 'people db domain runtime',
  // wire
  api: 'dialects domain runtime',
  dialects: 'tokens egress domain runtime',
  upstreams: 'credentials domain runtime',
  'demo-model': 'tokens domain runtime',
  tokens: 'domain runtime',
  redaction: 'domain runtime',
  credentials: 'egress domain runtime',
  egress: 'runtime',
  // base
  secrets: 'db domain runtime',
  db: 'domain runtime',
  domain: '',
  runtime: '',
}

/** The folder of each room, below src/. */
const folders = Object.fromEntries(
  Object.entries(wings).flatMap(([wing, names]) =>
    names.split(' ').map(room => [room, room === wing ? wing : `${wing}/${room}`]),
  ),
)

const wingOf = room => Object.keys(wings).findIndex(wing => wings[wing].split(' ').includes(room))
for (const [room, allowed] of Object.entries(rooms))
  for (const other of allowed.split(' ').filter(Boolean))
    if (wingOf(other) < wingOf(room)) throw new Error(`${room} may not import ${other}, which is in a wing above it`)

/** Matches the files of a room, without those of rooms in folders inside it. */
const filesOf = room => {
  const inside = Object.values(folders).filter(folder => folder.startsWith(`${folders[room]}/`))
  return `^src/${folders[room]}/${inside.length === 0 ? '' : `(?!${inside.map(folder => `${folder.slice(folders[room].length + 1)}/`).join('|')})`}`
}
const filesOfAll = list => list.map(room => filesOf(room)).join('|')

const entryPoints =
  '^src/(cli[.]js|start/worker[.]ts|wire/tokens/token-thread[.]ts|wire/redaction/redaction-thread[.]ts)$'

/** Allowed everywhere but in pure rooms: does nothing unless a crash test armed it. */
const failpoint = '^src/base/runtime/failpoint[.]ts$'

/** Stands for node:http, which is loaded without an import. */
const nodeHttp = '^src/base/runtime/node-http[.]ts$'

const never = (name, from, to, comment) => ({ name, comment, severity: 'error', from, to })

const roomRules = Object.entries(rooms).map(([room, allowed]) =>
  never(
    `${room}-imports-downward`,
    { path: filesOf(room), pathNot: '[.]test[.]ts$' },
    {
      path: '^(src|test|bench|sim)/',
      pathNot: filesOfAll([room, ...allowed.split(' ').filter(Boolean)]),
    },
    `src/${folders[room]} may import: ${allowed || 'nothing'}. Pass values through the caller, or move the shared word down.`,
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
    // tsc finds these: the console names the types of src/wire/api by an alias of its tsconfig.json.
    never(
      'no-missing-files',
      {},
      { couldNotResolve: true, pathNot: '^#api/' },
      'The imported file or package does not exist.',
    ),

    ...roomRules,
    never(
      'rooms-are-listed',
      { path: '^src/', pathNot: `${filesOfAll(Object.keys(rooms))}|${entryPoints}` },
      {},
      'Add the room to the tables above, with its wing and the rooms it may import.',
    ),
    never(
      'usage-reads-no-ledger-code',
      { path: '^src/money/usage/' },
      { path: '^src/money/ledger/' },
      'Reports read tables; they never share code with what writes money.',
    ),
    never(
      'plain-door-has-one-import',
      { path: '^src/', pathNot: '^src/http/(plain/|server[.]ts$)' },
      { path: '^src/http/plain/' },
      'The plain server must stay deletable in one commit. Use the interfaces of src/http/generation-exchange.ts.',
    ),
    never(
      'entry-points-are-imported-by-nothing',
      { path: '^src/' },
      { path: entryPoints },
      'An entry point only starts a program.',
    ),
    never('shipped-code-has-no-tests', { path: '^src/', pathNot: '[.]test[.]ts$' }, { path: '^(test|bench|sim)/' }),

    never(
      'console-imports-values-of-the-domain-only',
      { path: '^console/src/' },
      { path: '^src/', pathNot: '^src/base/domain/' },
      'A browser loads it. Import a type of src/wire/api by #api/, which Vite does not know, or move the value to src/base/domain.',
    ),

    // A gateway without telemetry neither loads its packages nor pays for them.
    never(
      'telemetry-loads-when-it-is-on',
      {
        path: '^src/',
        pathNot: '^src/http/telemetry/((open-telemetry|request-traces|span|gen-ai-metrics)[.]ts|.*[.]test[.]ts)$',
      },
      {
        path: 'node_modules/@opentelemetry/|^src/http/telemetry/(open-telemetry|request-traces|span|gen-ai-metrics)[.]ts$',
        dependencyTypesNot: ['dynamic-import', 'type-only'],
      },
      'Only startTelemetry loads OpenTelemetry, by import(). Use the interface Telemetry.',
    ),

    // Doors to the outside world.
    never(
      'pg-only-in-db',
      { path: '^src/', pathNot: '^src/base/db/' },
      { path: 'node_modules/(@types/)?pg/' },
      'Use Pool, Sql and transaction of src/base/db/pool.ts.',
    ),
    never(
      'sockets-only-at-the-doors',
      {
        path: '^src/',
        pathNot: `${filesOfAll(['http', 'upstreams', 'egress', 'alerts', 'demo-model', 'agent', 'start', 'cli'])}|[.]test[.]ts$`,
      },
      {
        path: `${nodeHttp}|^(node:)?(http|http2|https|net|tls)$|node_modules/undici/`,
        dependencyTypesNot: ['type-only'],
      },
      'Outgoing requests must pass the address checks of upstreams, egress and alerts.',
    ),
    never(
      'pure-rooms-do-no-io',
      { path: filesOfAll(['domain', 'route', 'dialects', 'api']), pathNot: '[.]test[.]ts$' },
      { dependencyTypes: ['core'], pathNot: '^(node:)?(assert|buffer|crypto|module|string_decoder|url|util|vm|zlib)$' },
      'Take the data as an argument.',
    ),
    never(
      'pure-rooms-have-no-failpoints',
      { path: filesOfAll(['domain', 'route', 'dialects', 'api']), pathNot: '[.]test[.]ts$' },
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
