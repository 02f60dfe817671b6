import { expect, test } from 'vitest'
import { inviteMail, newEmailMail, resetMail, signUpMail } from './mail-texts.ts'

const invitation = { to: 'bob@example.com', by: 'Ada', name: 'acme', role: 'viewer', url: 'http://gateway/invite#x' }

test.each([
  'https://evil.example/x',
  'www.evil.example',
  'evil.example',
  'Win at EVIL.example now',
  'www.evil.example/x?y=1@a',
  'www.evil.example@a',
  'evil.example/x@a.example',
])('the name "%s" is no link in an invitation', name => {
  const { subject, text } = inviteMail({ ...invitation, by: name, name })
  expect(subject).toBe('Invitation to a hoster')
  expect(text).toMatch(/^A member invites you to join a hoster as viewer\./)
  expect(text.match(/http|evil/gi)).toEqual(['http'])
})

test.each(['Dr. Ada Lovelace', 'J.R. Smith', 'acme v1.2', 'ada@example.com', 'ada.b+c@example.com'])(
  'the name "%s" stays',
  name => {
    expect(inviteMail({ ...invitation, by: name, name }).text).toContain(
      `${name} invites you to join ${name} as viewer.`,
    )
  },
)

test('each mail says how long its link works', () => {
  const url = 'http://gateway/x'
  expect(inviteMail(invitation).text).toContain('Accept the invitation within 7 days:')
  expect(signUpMail('a@b.example', url).text).toContain('Set your password within 24 hours,')
  expect(resetMail('a@b.example', url).text).toContain('Set a new password within one hour:')
  expect(newEmailMail('a@b.example', url).text).toContain('open this link within 24 hours.')
})
