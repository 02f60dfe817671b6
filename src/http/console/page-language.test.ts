import { expect, test } from 'vitest'
import { pageLanguage } from './page-language.ts'

const languages = ['en', 'zh-Hans']
const accepted = (header: string, all = languages) => pageLanguage({ 'accept-language': header }, all)

test('the first language of the browser that there is', () => {
  expect(accepted('zh-CN,zh;q=0.9,en;q=0.8')).toBe('zh-Hans')
  expect(accepted('de-DE,de;q=0.9,zh;q=0.5,en;q=0.3')).toBe('zh-Hans')
  expect(accepted('en;q=0.3, zh-SG;q=0.5')).toBe('zh-Hans')
  expect(accepted('en-US,en;q=0.9,zh;q=0.8')).toBe('en')
  expect(accepted('fr-FR,fr')).toBe('en')
  expect(accepted('zh;q=0')).toBe('en')
})

test('readers of the other Chinese script get this one only if theirs is missing', () => {
  expect(accepted('zh-TW,zh;q=0.9')).toBe('zh-Hans')
  expect(accepted('zh-TW,zh;q=0.9', ['en', 'zh-Hans', 'zh-Hant'])).toBe('zh-Hant')
  expect(accepted('zh-HK', ['en', 'zh-Hans', 'zh-Hant'])).toBe('zh-Hant')
  expect(accepted('zh', ['en', 'zh-Hans', 'zh-Hant'])).toBe('zh-Hans')
})

test('what is no language is left out', () => {
  for (const header of ['', '*', ',;,', 'q=1', '../../etc', 'x'.repeat(9_000), 'zh_CN', Array(99).fill('xx').join()])
    expect(accepted(header)).toBe('en')
})

test('a choice comes first, if the console still has that language', () => {
  const chosen = (cookie: string) => pageLanguage({ cookie, 'accept-language': 'zh-CN' }, languages)
  expect(chosen('sy_language=en')).toBe('en')
  expect(chosen('a=b; sy_language=zh-Hans; c=d')).toBe('zh-Hans')
  expect(chosen('sy_language=tlh')).toBe('zh-Hans')
  expect(chosen('not_sy_language=en')).toBe('zh-Hans')
  expect(pageLanguage({}, languages)).toBe('en')
})
