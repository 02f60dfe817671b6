import { expect, test } from 'vitest'
import { usageProblems, usageSettings } from './read-usage.ts'
import { fileSchema } from './schema.ts'

const s3 = { endpoint: 'https://s3.example.com', access_key_id: 'id', secret_access_key: 'secret' }
const settingsOf = (usage: object, backup: object = {}) => fileSchema.parse({ usage, backup })

test('nothing is archived or exported by default, and archives are in the data directory', () => {
  expect(usageSettings(settingsOf({}), '/home', 'data')).toEqual({
    keepMonths: null,
    archiveDirectory: '/home/data/archive',
    export: null,
  })
})

test('paths are relative to the directory of the gateway, and a bucket has the access of backups', () => {
  const { archiveDirectory, export: plan } = usageSettings(
    settingsOf({ archive_directory: 'old', export_to: 's3://usage/days', export_format: 'jsonl' }, { s3 }),
    '/home',
    '/data',
  )
  expect(archiveDirectory).toBe('/home/old')
  expect(plan).toMatchObject({
    place: { kind: 'bucket', bucket: 'usage', prefix: 'days/', accessKeyId: 'id' },
    format: 'jsonl',
  })
})

test.each([
  [{ export_to: '/days' }, {}, []],
  [{ export_to: 's3://usage' }, { s3 }, []],
  [{ export_to: 's3://usage' }, { s3: { ...s3, endpoint: undefined } }, ['backup.s3.endpoint']],
])('the problems of %j with %j', (usage, backup, expected) => {
  expect(usageProblems(settingsOf(usage, backup), 'switchyard.yaml').map(({ key }) => key)).toEqual(expected)
})
