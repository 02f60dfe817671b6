import { expect, test } from 'vitest'
import { weaknessOf } from './common-password.ts'

const EMAIL = 'ada.lovelace@example.com'

test.each([
  ['starwarsstarwars', /common word/],
  ['Password1234!', /common word/],
  ['P@ssw0rd2026', /common word/],
  ['...football...', /common word/],
  ['1qaz2wsx3edc', /most common/],
  ['1QAZ2WSX3EDC4RFV', /most common/],
  ['motherfucker', /most common/],
  ['aaaaaaaaaaaaaaaa', /few different/],
  ['121212121212', /few different/],
  ['123456789012', /row of keys/],
  ['qwertyuiopas', /row of keys/],
  ['fedcbazyxwvu', /row of keys/],
  ['98765432109876', /row of keys/],
  ['Ada.Lovelace1', /common word/],
  ['example.com!!', /common word/],
  ['switchyard2026', /common word/],
  ['583!920?174-652', /no letters/],
])('%s is refused', async (password, reason) => {
  expect((await weaknessOf(password, EMAIL))?.text).toMatch(reason)
})

test.each([
  'correct horse battery staple',
  'a new long password',
  'password number 3',
  'an attacker comes later',
  'tr0ub4dor&3-and-more',
  'Fjällräven über alles',
  'f4Kq-91mZ-xx02',
  'пароль из четырёх слов',
  'wrong password here',
])('%s is accepted', async password => {
  expect(await weaknessOf(password, EMAIL)).toBeNull()
})
