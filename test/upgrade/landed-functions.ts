import { readFileSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { sqlDir } from '../../src/base/db/migrate.ts'

/** The files below `sql/functions` of a version that landed. */
export interface LandedFunctions {
  readonly version: number
  /** Such as `0052_spend_budget.sql`. */
  readonly newestMigration: string
  /** By name below `sql/functions`. */
  readonly texts: Readonly<Record<string, string>>
}

/** Of the last versions that landed, the oldest first. `keep-landed.ts` writes them. */
export const landedFunctions: readonly LandedFunctions[] = JSON.parse(
  gunzipSync(readFileSync(new URL('landed-functions.json.gz', import.meta.url))).toString(),
)

/** Calls `use` with a directory that has the SQL of the version, as `sqlDir` has that of this one. */
export async function withLandedSql(
  { newestMigration, texts }: LandedFunctions,
  use: (directory: string) => Promise<unknown>,
): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-landed-sql-'))
  try {
    await mkdir(join(directory, 'migrations'))
    for (const name of await readdir(join(sqlDir, 'migrations')))
      if (name <= newestMigration) await cp(join(sqlDir, 'migrations', name), join(directory, 'migrations', name))
    for (const [name, text] of Object.entries(texts)) {
      const file = join(directory, 'functions', name)
      await mkdir(dirname(file), { recursive: true })
      await writeFile(file, text)
    }
    await use(directory)
  } finally {
    await rm(directory, { recursive: true })
  }
}
