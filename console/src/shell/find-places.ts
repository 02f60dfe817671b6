import { t } from '@lingui/core/macro'

/** The parts of pages that Find knows besides the names of pages, and words by which people look for them. */
export const findPlaces = [
  { id: 'account', name: t`Account`, words: t`name, e-mail address, language, sign out, delete, download, data` },
  { id: 'people', name: t`People`, words: t`member, invite, invitation, role, spend limit` },
  { id: 'alerts', name: t`Alerts`, words: t`warning, low balance, e-mail, webhook, limit` },
  { id: 'security', name: t`Security`, words: t`password, passkey, authenticator, second factor, session, sign out` },
] as const

/** Actions on a page. Those on keys are only for people who may change keys. */
export const findDeeds = [
  { id: 'make', name: t`Make a key`, words: t`new key, create a key, token` },
  { id: 'leaked', name: t`Stop a key that leaked`, words: t`leaked, stolen, lost, revoke, pause` },
] as const

/** Words by which people look for a page, by the end of its address. */
export const pageWords: Readonly<Record<string, string>> = {
  activity: t`requests, receipts, log, history, csv`,
  usage: t`cost, spend, report, tokens, csv, export`,
  keys: t`key limit, api key, leaked`,
  credits: t`balance, pay, top up, voucher, invoice, statement`,
  models: t`price, prices, context, features`,
  playground: t`chat, talk, test, prompt`,
  settings: t`account, people, alerts, security, sharing`,
}

export const referenceWords = t`docs, documentation, api, openapi, reference, help`
