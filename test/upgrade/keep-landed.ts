// node test/upgrade/keep-landed.ts, when a version has landed: from then on its SQL is what upgrades begin with, and its
// migrations never change. Writes landed-sql.sha256 and landed-functions.json.gz.
import { readFileSync, writeFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { FUNCTIONS_VERSION, readSqlFiles, sqlDir } from '../../src/base/db/migrate.ts'
import { type LandedFunctions, landedFunctions } from './landed-functions.ts'

const { migrations, functions, checksum } = await readSqlFiles(sqlDir)

const list = new URL('landed-sql.sha256', import.meta.url)
const kept = readFileSync(list, 'utf8').trim().split('\n')
const lines = [
  ...migrations.map(({ checksum, name }) => `${checksum}  ${name}`),
  `${checksum} ${FUNCTIONS_VERSION} functions`,
]
writeFileSync(list, `${[...kept, ...lines.filter(line => !kept.includes(line))].join('\n')}\n`)

const now: LandedFunctions = {
  version: FUNCTIONS_VERSION,
  newestMigration: migrations.at(-1)!.name,
  texts: Object.fromEntries(functions.map(({ name, text }) => [name, text])),
}
/** More would only grow the repository: each step was tested when it was the last one. */
const KEPT_VERSIONS = 2
const versions = [...landedFunctions.filter(({ version }) => version !== now.version), now].slice(-KEPT_VERSIONS)
writeFileSync(new URL('landed-functions.json.gz', import.meta.url), gzipSync(JSON.stringify(versions), { level: 9 }))
