// A process that keeps a data directory open, for tests about processes that start, stop and crash.
// node hold-database.ts <dataDir> [exit]: prints one JSON line when the database is open; `exit` then exits without closing it.
// Closes the database when standard input ends. On SIGINT it sends a query and prints the answer.
import { openDatabase } from '../../src/base/db/open-database.ts'
import { createPool } from '../../src/base/db/pool.ts'
import { acquireServerLock } from '../../src/base/db/server-lock.ts'

const [dataDir = '', mode] = process.argv.slice(2)
const print = (line: unknown) => process.stdout.write(`${JSON.stringify(line)}\n`)
const database = await openDatabase({ dataDir, log: { info() {}, warn() {} } })
const pool = createPool(database.connection, { max: 1, applicationName: 'holder' })
if (mode === 'serve') await acquireServerLock(database.connection)
process.on('SIGINT', async () => print((await pool.query('SELECT 1 AS alive')).rows[0]))
print({ startedByUs: database.startedByUs })
if (mode === 'exit') process.exit()
process.stdin.resume().on('end', async () => {
  await pool.end()
  await database.close()
  process.exit()
})
