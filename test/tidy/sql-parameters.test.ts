import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseSync } from '@swc/core'
import { expect, test } from 'vitest'

// A value in the text of a statement may be SQL. Values belong into the parameters ($1, $2). Only names and
// conditions that this code writes itself may be put into the text.

const root = fileURLToPath(new URL('../..', import.meta.url))
const files = globSync('src/**/*.ts', { cwd: root }).filter(file => !file.endsWith('.test.ts'))

/** What may be put into the text of a statement, besides constants in capitals, with the reason that it is no value. */
const allowed: Readonly<Record<string, string>> = {
  'src/base/secrets/reseal.ts: column': 'a column of the list of sealed places',
  'src/base/secrets/reseal.ts: columns': 'the columns of a primary key in that list',
  'src/base/secrets/reseal.ts: from': 'parameters with a type',
  'src/base/secrets/reseal.ts: isRow': 'columns of that key with parameters',
  'src/base/secrets/reseal.ts: owner': 'a column of that list',
  'src/base/secrets/reseal.ts: table': 'a table of that list',
  'src/base/secrets/reseal.ts: texts': 'the columns of that key',
  'src/money/accounts/customers.ts: match': 'one of two conditions',
  'src/cli/backup/export-books.ts: table': 'one of a list of constant names',
  'src/operator/waiting.ts: Object.entries().map().join()': 'statements of this file',
  'src/operator/waiting.ts: count': 'a statement of this file',
  'src/operator/waiting.ts: kind': 'a name of this file',
  'src/request/chat/idempotency/postgres-claim-store.ts: heartbeatsOf()': 'a subquery with a column or a parameter',
  'src/request/chat/idempotency/postgres-claim-store.ts: nodeId': 'the column or parameter of that subquery',
  'src/base/db/embedded-cluster.ts: database': 'a constant name',
  'src/base/db/embedded-cluster.ts: deskPassword': 'random hexadecimal digits; ALTER ROLE takes no parameters',
  'src/base/db/embedded-cluster.ts: deskUser': 'a constant name',
  'src/base/db/embedded-cluster.ts: gatewayPassword': 'random hexadecimal digits; CREATE ROLE takes no parameters',
  'src/base/db/embedded-cluster.ts: gatewayUser': 'a constant name',
  'src/base/db/embedded-cluster.ts: password': 'random hexadecimal digits; CREATE ROLE takes no parameters',
  'src/base/db/embedded-cluster.ts: user': 'a constant name',
  'src/base/db/migrate.ts: database': 'a message for the operator',
  'src/base/db/migrate.ts: login': 'a message for the operator',
  'src/base/db/inspect-server.ts: database': 'a message for the operator',
  'src/base/db/inspect-server.ts: encoding': 'a message for the operator',
  'src/base/db/inspect-server.ts: role': 'a message for the operator',
  'src/base/db/inspect-server.ts: transactionTimeout': 'a message for the operator',
  'src/base/db/migrate.ts: role': 'a message for the operator',
  'src/base/db/migrate.ts: schema': 'a message for the operator',
  'src/base/db/migrate.ts: schema_of_tables': 'a message for the operator',
  'src/money/ledger/accounts/list-transactions.ts: lastBefore()': 'a subquery with parameters',
  'src/money/ledger/accounts/list-transactions.ts: lines': 'one of two constant subqueries',
  'src/money/ledger/accounts/list-transactions.ts: linesOfPage()': 'a subquery with parameters',
  'src/money/ledger/accounts/list-transactions.ts: sumOfNewer()': 'a subquery with parameters',
  'src/money/ledger/archive/archive-month.ts: name': 'the digits of a month',
  'src/money/ledger/archive/usage-months.ts: partition': 'a table name of the catalog, checked by a pattern',
  'src/money/ledger/archive/write-archive-file.ts: table': 'a table name with the digits of a month',
  'src/money/ledger/audit/audit-checks.ts: alias': 'a name in the statement of a check',
  'src/money/ledger/audit/audit-checks.ts: id': 'one of two column names',
  'src/money/ledger/audit/audit-checks.ts: isOpenTx': 'a constant condition',
  'src/money/ledger/audit/audit-checks.ts: of': 'key or member',
  'src/money/ledger/audit/audit-checks.ts: ofBlocks': 'a constant subquery',
  'src/money/ledger/audit/audit-checks.ts: ofCustomers()': 'a subquery with parameters',
  'src/money/ledger/audit/audit-checks.ts: ofTransactions()': 'a subquery with parameters',
  'src/money/ledger/audit/audit-checks.ts: table': 'a table name in the statement of a check',
  'src/money/ledger/audit/audit.ts: sql': 'the statement of a check',
  'src/operator/personal-data.ts: columns': 'quoted columns of that table, read from the database',
  'src/operator/personal-data.ts: ofSubject': 'columns of the list of places, with a parameter',
  'src/operator/personal-data.ts: shown': 'a condition of that list, with a parameter',
  'src/operator/personal-data.ts: table': 'a table of that list',
  'src/operator/list-customers.ts: LAST_30_DAYS': 'a condition, written out in the file',
  'src/operator/list-customers.ts: by': 'an expression of the list of sorted columns',
  'src/operator/list-customers.ts: customers': 'one of two subqueries with parameters',
  'src/operator/list-customers.ts: figuresOf()': 'a subquery with parameters',
  'src/operator/list-customers.ts: join': 'a join of the list of sorted columns',
  'src/operator/list-customers.ts: last': 'the last row of the page before, by parameters',
  'src/operator/list-customers.ts: next': '< or >',
  'src/operator/list-customers.ts: order': 'ASC or DESC',
  'src/operator/request-log.ts: BinaryExpression': 'a constant number',
  'src/operator/request-log.ts: filters.join()': 'conditions with parameters',
  'src/operator/request-log.ts: order': 'one of two constant orders',
  'src/operator/request-log.ts: scanned': 'one of two subqueries with parameters',
  'src/operator/request-log.ts: text': 'the number of a parameter',
  'src/operator/request-log.ts: where': 'a condition with parameters',
  'src/operator/usage-statements.ts: ConditionalExpression': 'a constant column or join, or nothing',
  'src/operator/usage-statements.ts: column': 'one of four column names',
  'src/operator/usage-statements.ts: from': 'one of three tables with parameters',
  'src/operator/usage-statements.ts: sums': 'constant sums',
  'src/money/payouts/payout-batches.ts: callOf()': 'one of two names of a function',
  'src/money/payments/provider-sync.ts: name': 'payment or payout',
  'src/money/usage/events/read-usage-events.ts: table': 'one of two tables',
  'src/money/usage/latency-report.ts: newest': 'one of two constant subqueries',
  'src/money/usage/list-requests.ts: BinaryExpression': 'a constant number',
  'src/money/usage/list-requests.ts: limit': 'a parameter or a constant number',
  'src/money/usage/list-requests.ts: newest()': 'a subquery',
  'src/money/usage/list-requests.ts: passed': 'a subquery',
  'src/money/usage/list-requests.ts: wanted.sql': 'conditions with parameters',
  'src/money/usage/spend.ts: ConditionalExpression': 'a condition with a parameter, or nothing',
  'src/money/usage/spend.ts: column': 'one of two column names',
  'src/money/usage/token-usage.ts: bucket': 'one of four expressions',
  'src/money/usage/usage-export.ts: filters.sql': 'conditions with parameters',
  'src/money/usage/usage-shares.ts: id': 'one of three column names',
  'src/money/usage/usage-shares.ts: interval': 'one of three words, checked by the schema of the query',
  'src/money/usage/usage-shares.ts: table': 'one of two table names',
  'src/money/usage/usage-shares.ts: tokens': 'one of two lists of columns',
}

const SQL = /\b(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|WHERE|ORDER BY|LIMIT|ALTER|CREATE|GRANT|REVOKE|DROP|TRUNCATE) /

/** Returns `file: expression` for each expression in a template with SQL, except constants in capitals. */
function expressionsInSql(file: string, source: string): string[] {
  const found: string[] = []
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return
    const { type, quasis, expressions } = node as { type?: string; quasis: { raw: string }[]; expressions: unknown[] }
    if (type === 'TemplateLiteral' && SQL.test(quasis.map(({ raw }) => raw).join(' '))) {
      const texts = expressions.map(textOf).filter(text => !/^[A-Z_]+$/.test(text))
      found.push(...texts.map(text => `${file}: ${text}`))
    }
    Object.values(node).forEach(visit)
  }
  visit(parseSync(source, { syntax: 'typescript', target: 'esnext' }))
  return found
}

/** Returns the name of a variable, member or called function; for other expressions their type. */
function textOf(expression: unknown): string {
  const { type, value, object, property, callee } = expression as Record<string, unknown>
  if (type === 'Identifier') return value as string
  if (type === 'MemberExpression') return `${textOf(object)}.${textOf(property)}`
  if (type === 'CallExpression') return `${textOf(callee)}()`
  return type as string
}

test('no value stands in the text of a statement', () => {
  const found = new Set(files.flatMap(file => expressionsInSql(file, readFileSync(root + file, 'utf8'))))
  expect([...found].sort(), 'pass values as parameters, or list a new name above with the reason').toEqual(
    Object.keys(allowed).sort(),
  )
})

test('a planted value is found', () => {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: source text
  const planted = "const rows = sql.query(`SELECT * FROM customer WHERE email = '${request.email}' LIMIT ${MAX}`)"
  expect(expressionsInSql('src/planted.ts', planted)).toEqual(['src/planted.ts: request.email'])
})
