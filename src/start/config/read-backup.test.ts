import { expect, test } from 'vitest'
import { backupPlan, backupProblems } from './read-backup.ts'
import { fileSchema } from './schema.ts'

const settingsOf = (backup: object) => fileSchema.parse({ backup }).backup
const keys = { endpoint: 'https://s3.example.com', access_key_id: 'id', secret_access_key: 'secret' }

test.each([
  ['s3://backups', 'backups', ''],
  ['s3://backups/', 'backups', ''],
  ['s3://backups/a/b', 'backups', 'a/b/'],
  ['s3://backups/a/b/', 'backups', 'a/b/'],
])('%s is a bucket with a prefix', (to, bucket, prefix) => {
  expect(backupPlan(settingsOf({ to, s3: keys }), '/home')?.place).toMatchObject({ kind: 'bucket', bucket, prefix })
})

test('everything else is a directory, from the directory of the gateway', () => {
  expect(backupPlan(settingsOf({ to: 'backups' }), '/home')?.place).toEqual({
    kind: 'directory',
    path: '/home/backups',
  })
  expect(backupPlan(settingsOf({}), '/home')).toBe(null)
  for (const to of ['s3://', 's3://UPPER', 's3://b/../x y', 'https://backups'])
    expect(() => settingsOf({ to }), to).toThrow('directory or s3://bucket/prefix/')
})

test.each([
  [{ to: '/b' }, false, []],
  [{ every_hours: '5' }, false, []],
  [{ to: '/b' }, true, ['backup.to']],
  [{ to: '/b', every_hours: '5' }, false, ['backup.every_hours']],
  [{ to: 's3://backups' }, false, ['backup.s3.endpoint', 'backup.s3.access_key_id', 'backup.s3.secret_access_key']],
  [{ to: 's3://backups', s3: keys }, false, []],
])('the problems of %j with DATABASE_URL: %s', (backup, hasDatabaseUrl, expected) => {
  expect(backupProblems(settingsOf(backup), hasDatabaseUrl, 'switchyard.yaml').map(({ key }) => key)).toEqual(expected)
})
