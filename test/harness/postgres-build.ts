import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { INITDB_OPTIONS, type PostgresBuild } from '../../src/base/db/postgres-programs.ts'

/** For the parallel tests, whose data may be lost. All other settings of a given PostgreSQL keep their defaults. */
export const CHANGED_SETTINGS = { max_connections: '300', fsync: 'off' }

/** The PostgreSQL in the directory `programs`. Its clusters get the settings that initdb gives by default. */
export function defaultBuild(programs: string): PostgresBuild {
  const version = execFileSync(join(programs, 'postgres'), ['--version'], { encoding: 'utf8' })
  const major = /\d+/.exec(version)?.[0]
  if (major === undefined) throw new Error(`${programs}/postgres has an unknown version: ${version}`)
  return { programs, major, initdbOptions: INITDB_OPTIONS }
}
