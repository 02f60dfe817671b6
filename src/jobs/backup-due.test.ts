import { expect, test } from 'vitest'
import type { BackupPlan } from '../base/domain/backup-plan.ts'
import type { BackupState } from '../operator/backup-state.ts'
import { backupDue } from './backup-due.ts'

const plan: BackupPlan = {
  place: { kind: 'directory', path: '/backups' },
  everyHours: 24,
  atMinute: 195,
  keepDays: 7,
  keepWeeks: 4,
  alarmAfterHours: 48,
  testDays: 7,
  testDirectory: null,
  includesSecrets: false,
}
const at = (time: string) => Date.parse(`2026-11-${time}:00Z`)
const backupAt = (time: string, name = time): BackupState => ({
  lastMs: at(time),
  stored: { place: '/backups', name, startedMs: at(time), bytes: 1 },
  failure: null,
  test: { name: 'tested', atMs: at('20T03:20'), elapsedMs: 1, problem: null },
})
const none: BackupState = { lastMs: null, stored: null, failure: null, test: null }
const failedAt = (time: string) => ({ failure: { atMs: at(time), reason: 'the disk is full' } })

test.each<[string, Partial<BackupPlan>, BackupState, string, ReturnType<typeof backupDue>]>([
  ['the first one is due at once', {}, none, '23T12:00', 'backup'],
  [
    'a backup to a file does not replace the first one',
    {},
    { ...backupAt('23T11:00'), stored: null },
    '23T12:00',
    'backup',
  ],
  ['that of today is made', {}, backupAt('23T03:15'), '23T12:00', null],
  ['before the time of the day, that of yesterday counts', {}, backupAt('22T03:15'), '23T03:14', null],
  ['at the time of the day', {}, backupAt('22T03:15'), '23T03:15', 'backup'],
  ['the time passed while no node ran', {}, backupAt('21T03:15'), '23T00:00', 'backup'],
  [
    'those of today are elsewhere',
    { place: { kind: 'directory', path: '/new' } },
    backupAt('23T03:15'),
    '23T12:00',
    'backup',
  ],
  ['every six hours', { everyHours: 6 }, backupAt('23T03:15'), '23T09:15', 'backup'],
  ['every six hours, not yet', { everyHours: 6 }, backupAt('23T03:15'), '23T09:14', null],
  ['a wrong clock noted one in the future', {}, backupAt('25T03:15'), '23T12:00', 'backup'],
  ['it failed just now', {}, { ...none, ...failedAt('23T03:16') }, '23T03:20', null],
  ['it failed a while ago', {}, { ...none, ...failedAt('23T03:16') }, '23T03:31', 'backup'],
  [
    'a failure of before the last backup',
    {},
    { ...backupAt('23T03:15'), test: null, ...failedAt('23T03:10') },
    '23T03:20',
    'test',
  ],
  ['no restore was tested', {}, { ...backupAt('23T03:15'), test: null }, '23T03:20', 'test'],
  ['the last test was a week ago', {}, backupAt('27T03:15'), '27T03:20', 'test'],
  ['tests are switched off', { testDays: 0 }, { ...backupAt('23T03:15'), test: null }, '23T03:20', null],
])('%s', (_, changes, state, now, due) => {
  expect(backupDue({ ...plan, ...changes }, state, at(now))).toBe(due)
})

test('a backup that could not be restored is tested once, and so is the next one', () => {
  const failed = { name: 'bad', atMs: at('23T03:20'), elapsedMs: 1, problem: 'it is damaged' }
  const testOf = (name: string) => backupDue(plan, { ...backupAt('23T03:15', name), test: failed }, at('23T04:00'))
  expect([testOf('bad'), testOf('next')]).toEqual([null, 'test'])
})
