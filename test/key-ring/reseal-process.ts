// Seals everything again in a process that the test kills. Prints `resealed` after some values, and waits for its end.
import type { Connection } from '../../src/base/db/open-database.ts'
import { createPool } from '../../src/base/db/pool.ts'
import { parseMasterKeys } from '../../src/base/secrets/master-key.ts'
import { MasterKeys } from '../../src/base/secrets/master-keys.ts'
import { resealAll } from '../../src/base/secrets/reseal.ts'

const { CONNECTION, KEYS } = process.env
const pool = createPool(JSON.parse(CONNECTION!) as Connection, { max: 1, applicationName: 'resealing' })
let updates = 0
const counted: typeof pool = {
  ...pool,
  async query(statement, values) {
    const result = await pool.query<never>(statement, values)
    if (!String(statement).startsWith('UPDATE') || ++updates < 50) return result
    console.log('resealed')
    return new Promise(() => {})
  },
}
// Without it, the process would end when nothing is left to wait for.
setInterval(() => {}, 60_000)
await resealAll({ pools: { gateway: counted, desk: counted }, keys: new MasterKeys(parseMasterKeys(KEYS!)!) })
