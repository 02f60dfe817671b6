import { t } from '@lingui/core/macro'
import { Modal, TextInput } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { useQuery } from '@tanstack/react-query'
import { Link, type LinkProps, useNavigate, useParams } from '@tanstack/react-router'
import { type KeyboardEvent, type ReactNode, useRef, useState } from 'react'
import type { FoundKey } from '#api/operator/customers.ts'
import { findQuery } from '../api/operator-queries.ts'
import { keyNamesQuery, modelsQuery } from '../api/queries.ts'
import { request } from '../api/request.ts'
import { useWrite } from '../api/use-write.ts'
import { KeyIcon } from '../parts/icons.tsx'
import { findDeeds, findPlaces, pageWords, referenceWords } from './find-places.ts'
import { matchesKey } from './matches-key.ts'
import { customerItems, type NavItem, operatorItems } from './nav-items.tsx'
import styles from './shell.module.css'
import { useRights, useSession } from './use-session.ts'

const REQUEST_ID = /^(?:[a-z]+[-_])?([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$/i
/** A key itself. It is in no address: the gateway gets it in a body, and compares its hash. */
const KEY_ITSELF = /sk-sy-\w{20,}/
/** Any credential of the gateway, or a part of one: what was pasted with it may be one too, so none of it is in an address. */
const CREDENTIAL = /[sho]k-sy-/i
const OF_A_KIND_MAX = 8
const TYPED_MS = 150

/** Something to open or do. */
interface Result {
  readonly id: string
  readonly label: ReactNode
  /** A page, or what is done at once. */
  readonly go: LinkProps | (() => void)
}

/** Ctrl+K: finds pages, customers, keys, models, hosters, providers and requests, and does what is common with them. */
export function FindPage({ items, onClose }: { items: readonly NavItem[]; onClose: () => void }) {
  const [text, setText] = useState('')
  const navigate = useNavigate()
  const list = useRef<HTMLDivElement>(null)
  const typed = text.trim()
  const own = useOwnResults(items, typed)
  const operated = useOperatorResults(typed, items !== operatorItems)
  const results = [...own, ...operated.filter(({ id }) => own.every(each => each.id !== id))]
  const run = ({ go }: Result) => {
    onClose()
    if (typeof go === 'function') go()
    else void navigate(go as Parameters<typeof navigate>[0])
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step === undefined) return
    event.preventDefault()
    const rows = [...(list.current?.querySelectorAll<HTMLElement>('a, button') ?? [])]
    rows[Math.max(0, rows.indexOf(document.activeElement as HTMLElement) + step)]?.focus()
  }
  return (
    <Modal opened onClose={onClose} title={texts.title} closeOnClickOutside>
      <div onKeyDown={onKeyDown} role="none">
        <form
          onSubmit={event => {
            event.preventDefault()
            if (results[0] !== undefined) run(results[0])
          }}
        >
          <TextInput
            label={texts.field}
            description={texts.how}
            autoComplete="off"
            spellCheck={false}
            value={text}
            onChange={event => setText(event.currentTarget.value)}
            data-autofocus
          />
        </form>
        <div style={{ display: 'grid', gap: 4, marginTop: 12 }} ref={list}>
          {results.map((result, index) => (
            <ResultRow
              key={result.id}
              result={result}
              isChosen={index === 0}
              onRun={() => run(result)}
              onFollow={onClose}
            />
          ))}
          {results.length === 0 && <p>{texts.nothing}</p>}
        </div>
      </div>
    </Modal>
  )
}

/** @param props.isChosen by the key Enter */
function ResultRow({
  result,
  isChosen,
  onRun,
  onFollow,
}: {
  result: Result
  isChosen: boolean
  onRun: () => void
  onFollow: () => void
}) {
  const style = isChosen ? { background: 'var(--sunken)' } : {}
  if (typeof result.go === 'function') {
    return (
      <button type="button" className={styles.navLink} style={style} onClick={onRun}>
        {result.label}
      </button>
    )
  }
  return (
    <Link {...result.go} className={styles.navLink} style={style} onClick={onFollow}>
      {result.label}
    </Link>
  )
}

/** The pages of this frame, and the keys, models and requests of the customer that is shown. */
function useOwnResults(items: readonly NavItem[], typed: string): Result[] {
  const { customerId: shownId = '' } = useParams({ strict: false })
  // The operator's page of a customer has its id in the address, too.
  const customerId = items === customerItems ? shownId : ''
  const { seesKeys, mayKeys } = useRights()
  const wanted = customerId !== ''
  const keys = useQuery({ ...keyNamesQuery(customerId), enabled: wanted && seesKeys })
  const models = useQuery({ ...modelsQuery(customerId), enabled: wanted && typed !== '' })
  const pause = useWrite<{ id: string; name: string }>(
    ({ id }) => ({ method: 'PATCH', path: `customers/${customerId}/keys/${id}`, body: { paused: true } }),
    { areas: ['keys', 'key-spend'], done: (_, { name }) => texts.paused(name) },
  )
  const requestId = REQUEST_ID.exec(typed)?.[1]
  const params = { customerId }
  const request =
    requestId !== undefined && customerId !== ''
      ? [
          {
            id: `request ${requestId}`,
            label: texts.receipt(requestId),
            go: { to: '/c/$customerId/activity/$requestId', params: { customerId, requestId } } as const,
          },
        ]
      : []
  const { action, name } = actionOf(typed)
  const found = customerId === '' ? [] : (keys.data?.data.filter(key => matchesKey(key, name)) ?? [])
  const foundKeys = found.slice(0, OF_A_KIND_MAX).flatMap(({ id, name, hint }) => [
    ...(mayKeys && action === 'pause'
      ? [{ id: `pause ${id}`, label: texts.pauseKey(name, hint), go: () => pause.mutate({ id, name }) }]
      : []),
    {
      id: `key ${id}`,
      label: (
        <>
          <KeyIcon />
          {name} <code>{hint}</code>
        </>
      ),
      go: { to: '/c/$customerId/keys', params, search: { key: id } } as const,
    },
  ])
  const leaked =
    mayKeys && customerId !== '' && KEY_ITSELF.test(typed) && found.length === 0
      ? [
          {
            id: 'leaked',
            label: texts.leaked,
            go: { to: '/c/$customerId/keys', params, search: { leaked: true } } as const,
          },
        ]
      : []
  const foundModels =
    customerId === '' || typed === ''
      ? []
      : (models.data?.data.filter(({ id }) => includes(id, typed)) ?? []).slice(0, OF_A_KIND_MAX).map(({ id }) => ({
          id: `model ${id}`,
          label: texts.tryModel(id),
          go: { to: '/c/$customerId/playground', params, search: { model: id } } as const,
        }))
  const places =
    customerId === '' || typed === ''
      ? []
      : findPlaces
          .filter(place => isSought(place, typed))
          .map(({ id, name }) => ({
            id: `place ${id}`,
            label: texts.setting(name),
            go: { to: '/c/$customerId/settings/$tab', params: { customerId, tab: id } } as const,
          }))
  const deeds =
    customerId === '' || typed === '' || !mayKeys
      ? []
      : findDeeds
          .filter(deed => isSought(deed, typed))
          .map(({ id, name }) => ({
            id,
            label: name,
            go: { to: '/c/$customerId/keys', params, search: { [id]: true } } as const,
          }))
  const reference = isSought({ name: texts.reference, words: referenceWords }, typed)
    ? [{ id: 'reference', label: texts.reference, go: () => void window.open('/docs', '_blank', 'noopener') }]
    : []
  const addCredit =
    customerId !== '' && typed !== '' && includes(texts.addCredit, typed)
      ? [
          {
            id: 'credit',
            label: texts.addCredit,
            go: { to: '/c/$customerId/credits', params, search: { add: true } } as const,
          },
        ]
      : []
  const named = typed === '' ? [] : [...places, ...reference]
  return [
    ...[...request, ...pageResults(items, typed), ...addCredit, ...foundKeys, ...leaked],
    ...[...deeds.filter(({ id }) => id !== 'leaked' || leaked.length === 0), ...named, ...foundModels],
  ]
}

/** What an operator finds of the whole installation. The gateway refuses others. */
function useOperatorResults(typed: string, hasPages: boolean): Result[] {
  const { role } = useSession().person
  const { action, name } = actionOf(typed)
  const sought = KEY_ITSELF.exec(name)?.[0] ?? REQUEST_ID.exec(name)?.[1] ?? name
  const [settled] = useDebouncedValue(sought, TYPED_MS)
  const isKey = KEY_ITSELF.test(settled)
  const isWanted = role !== null && settled !== ''
  const found = useQuery({ ...findQuery(settled), enabled: isWanted && !CREDENTIAL.test(settled) })
  // Results of the text before would be run by the key Enter.
  const isLate = settled !== sought
  const data = isLate || found.isPlaceholderData ? undefined : found.data
  const itself = useQuery({
    queryKey: ['find', 'key itself', settled],
    queryFn: () => askForKey(settled),
    enabled: isWanted && isKey && role === 'operator',
    gcTime: 0,
    retry: false,
  })
  const pause = useWrite<{ id: string; customerId: string; name: string }>(
    ({ id, customerId }) => ({ method: 'POST', path: `operator/customers/${customerId}/keys/${id}/pause`, body: {} }),
    { areas: ['customers'], done: (_, { name }) => texts.paused(name) },
  )
  if (role === null || typed === '') return []
  const mayChange = role === 'operator'
  const key = isLate || itself.isPlaceholderData ? null : itself.data
  const foundKeys = key == null ? (data?.keys ?? []) : [shownKey(key)]
  const grants = mayChange
    ? (data?.customers ?? []).map(({ id, email }) => ({
        id: `grant ${id}`,
        label: texts.grant(email),
        go: { to: '/operator/customers/$customerId', params: { customerId: id }, search: { grant: true } } as const,
      }))
    : []
  const customers = (data?.customers ?? []).map(({ id, email }) => ({
    id: `customer ${id}`,
    label: texts.customer(email),
    go: { to: '/operator/customers/$customerId', params: { customerId: id } } as const,
  }))
  const keys = foundKeys.flatMap(({ id, name, hint, customer_id, customer_email, state }) => {
    const open = {
      id: `key ${id}`,
      label: texts.keyOf(name, hint, customer_email),
      go: { to: '/operator/customers/$customerId', params: { customerId: customer_id } } as const,
    }
    const stop = {
      id: `pause ${id}`,
      label: texts.pauseKeyOf(name, hint, customer_email),
      go: () => pause.mutate({ id, customerId: customer_id, name }),
    }
    if (!mayChange || state !== 'active') return [open]
    return action === 'pause' ? [stop, open] : [open, stop]
  })
  return [
    ...(action === 'grant' ? grants : []),
    ...(hasPages ? pageResults(operatorItems, typed) : []).map(result => ({ ...result, id: `operator ${result.id}` })),
    ...(data?.requests ?? []).map(({ id }) => ({
      id: `request ${id}`,
      label: texts.receipt(id),
      go: { to: '/operator/requests/$requestId', params: { requestId: id } } as const,
    })),
    ...customers,
    ...(action === 'grant' ? [] : grants),
    ...keys,
    ...(data?.hosters ?? []).map(({ id, name }) => ({
      id: `hoster ${id}`,
      label: texts.hoster(name),
      go: { to: '/operator/hosters/$hosterId', params: { hosterId: id } } as const,
    })),
    ...(data?.models ?? []).map(model => ({
      id: `offer ${model}`,
      label: texts.model(model),
      go: { to: '/operator/models' } as const,
    })),
    ...(data?.providers ?? []).map(name => ({
      id: `provider ${name}`,
      label: texts.provider(name),
      go: { to: '/operator/providers' } as const,
    })),
  ]
}

async function askForKey(key: string): Promise<FoundKey | null> {
  return request<FoundKey>('POST', 'operator/customer-keys/find', { body: { key } }).catch(() => null)
}

function shownKey({ key_id, name, hint, customer_id, customer_email, state }: FoundKey) {
  return { id: key_id, name, hint, customer_id, customer_email, state }
}

function pageResults(items: readonly NavItem[], typed: string): Result[] {
  return items
    .map(item => {
      const isNamed = includes(item.name, typed) || hasWord(pageWords[item.to.split('/').at(-1) ?? ''] ?? '', typed)
      return { ...item, block: isNamed ? null : blocksOf[item.to]?.find(each => includes(each, typed)) }
    })
    .filter(({ block }) => block !== undefined)
    .map(({ name, icon, to, block }) => ({
      id: `page ${to}`,
      label: (
        <>
          {icon}
          {block === null ? name : `${name}: ${block}`}
        </>
      ),
      go: { to },
    }))
}

/** Splits "pause key laptop" and "grant credit to ada@example.com" into what to do and with what. */
function actionOf(typed: string): { readonly action: 'pause' | 'grant' | null; readonly name: string } {
  const pause = /^pause(?: key)? +(.+)$/i.exec(typed)?.[1]
  if (pause !== undefined) return { action: 'pause', name: pause }
  const grant = /^grant(?: credit)?(?: to)? +(.+)$/i.exec(typed)?.[1]
  return grant === undefined ? { action: null, name: typed } : { action: 'grant', name: grant }
}

/** Whether a word begins with the text: parts of words would find almost every page. */
function hasWord(words: string, typed: string): boolean {
  return typed.length > 1 && words.split(', ').some(word => word.toLowerCase().startsWith(typed.toLowerCase()))
}

function isSought({ name, words }: { readonly name: string; readonly words: string }, typed: string): boolean {
  return includes(name, typed) || hasWord(words, typed)
}

function includes(text: string, part: string): boolean {
  return text.toLowerCase().includes(part.toLowerCase())
}

/** What else is sought on a page. */
const blocksOf: Readonly<Record<string, readonly string[]>> = {
  '/operator': [t`Alarms`, t`Waiting for you`, t`Nodes`, t`Servers`],
}

const texts = {
  title: t`Find`,
  field: t`A page, a key, or the id of a request`,
  how: t`Also "pause key laptop". Arrow keys choose, Enter opens.`,
  nothing: t`Nothing has this name.`,
  receipt: (id: string) => t`Receipt of the request ${id}`,
  addCredit: t`Add credit`,
  setting: (name: string) => t`Settings: ${name}`,
  reference: t`API reference`,
  leaked: t`Stop a key that leaked`,
  tryModel: (id: string) => t`Try ${id}`,
  pauseKey: (name: string, hint: string) => t`Pause the key ${name} (${hint})`,
  pauseKeyOf: (name: string, hint: string, email: string) => t`Pause the key ${name} (${hint}) of ${email}`,
  keyOf: (name: string, hint: string, email: string) => t`Key ${name} (${hint}) of ${email}`,
  paused: (name: string) => t`${name} is paused. It is refused within two seconds.`,
  customer: (email: string) => t`Customer ${email}`,
  grant: (email: string) => t`Grant credit to ${email}`,
  hoster: (name: string) => t`Hoster ${name}`,
  model: (id: string) => t`Model ${id}`,
  provider: (name: string) => t`Provider ${name}`,
} as const
