import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sqlDir } from '../../src/base/db/migrate.ts'
import { tablesAsSql } from '../harness/describe-schema.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const HEADER = `-- All tables as the migrations leave them, to read. What each column means stands in sql/migrations. Functions and views: sql/functions.
-- \`npm run schema\` writes this file.

`
const database = useTestDatabase()

test('sql/schema.sql is what a new database has', async () => {
  await expect(HEADER + (await tablesAsSql(database.pool))).toMatchFileSnapshot(join(sqlDir, 'schema.sql'))
})
