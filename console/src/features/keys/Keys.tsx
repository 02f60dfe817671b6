import { t } from '@lingui/core/macro'
import { ActionIcon, Button, Menu, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { lazy, Suspense, useEffect, useState } from 'react'
import type { Key } from '#api/keys.ts'
import { fromGateway } from '../../api/gateway-link.ts'
import { keysQuery } from '../../api/queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { ConfirmDialog } from '../../parts/ConfirmDialog.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { MoreIcon } from '../../parts/icons.tsx'
import type { KeyField } from '../../parts/KeyFields.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Charge } from '../../parts/Money.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { State } from '../../parts/State.tsx'
import { When } from '../../parts/When.tsx'
import { matchesKey } from '../../shell/matches-key.ts'
import { useCustomerId, useRights } from '../../shell/use-session.ts'
import { KeyLimit } from './KeyLimit.tsx'
import { keyTexts as texts } from './key-texts.ts'
import styles from './keys.module.css'
import { readKeysSearch } from './keys-search.ts'

// The list is there before its dialogs, which are half of the code.
const KeyForm = lazy(fromGateway(async () => ({ default: (await import('./KeyForm.tsx')).KeyForm })))
const RotateKey = lazy(fromGateway(async () => ({ default: (await import('./RotateKey.tsx')).RotateKey })))
const LeakedKey = lazy(fromGateway(async () => ({ default: (await import('./LeakedKey.tsx')).LeakedKey })))
const NewKey = lazy(fromGateway(async () => ({ default: (await import('./NewKey.tsx')).NewKey })))

/** Fewer keys are found by looking at them. */
const SEARCHED_FROM = 20

/** The keys of programs: spend, limits, models; made, changed and deleted here. */
export function Keys() {
  const customerId = useCustomerId()
  const { mayKeys, seesKeys } = useRights()
  const keys = useQuery({ ...keysQuery(customerId), enabled: seesKeys })
  const search = readKeysSearch(useSearch({ strict: false }))
  const navigate = useNavigate()
  const [text, setText] = useState('')
  const [isMaking, setMaking] = useState(false)
  const [edited, setEdited] = useState<Key | null>(null)
  const [focus, setFocus] = useState<KeyField>('name')
  const [rotated, setRotated] = useState<Key | null>(null)
  const [isLeaked, setLeaked] = useState(false)
  const [deleted, setDeleted] = useState<Key | null>(null)
  const [ended, setEnded] = useState<Key | null>(null)
  const remove = useWrite<Key>(({ id }) => ({ method: 'DELETE', path: `customers/${customerId}/keys/${id}` }), {
    areas: ['keys', 'key-spend'],
    done: (_, { name }) => t`${name} is deleted. It stops working within two seconds.`,
    onDone: () => setDeleted(null),
  })
  const pause = useWrite<Key>(
    ({ id, paused_at }) => ({
      method: 'PATCH',
      path: `customers/${customerId}/keys/${id}`,
      body: { paused: paused_at === null },
    }),
    {
      areas: ['keys', 'key-spend'],
      done: (_, { name, paused_at, former_key }) => {
        if (paused_at !== null) return texts.resumedDone(name)
        return (former_key === null ? texts.pausedDone : texts.pausedWithFormer)(name)
      },
    },
  )
  const endFormer = useWrite<Key>(
    ({ id }) => ({ method: 'PATCH', path: `customers/${customerId}/keys/${id}`, body: { former_key: null } }),
    { areas: ['keys', 'key-spend'], done: (_, { name }) => texts.formerEnded(name), onDone: () => setEnded(null) },
  )
  const edit = (key: Key, field: KeyField) => {
    setFocus(field)
    setEdited(key)
  }
  // Find leads here from this page, too.
  useEffect(() => {
    if (search.make === true && mayKeys) setMaking(true)
    if (search.leaked === true && mayKeys) setLeaked(true)
  }, [search.make, search.leaked, mayKeys])
  const leak = mayKeys && (
    <Button variant="default" onClick={() => setLeaked(true)}>
      {texts.leaked}
    </Button>
  )
  const make = (
    <Button
      onClick={() => setMaking(true)}
      disabled={!mayKeys}
      title={mayKeys ? undefined : t`Only owners and developers of this customer make keys.`}
    >{t`Make a key`}</Button>
  )
  if (!seesKeys) {
    return (
      <Page title={t`Keys`}>
        <Panel>
          <EmptyState text={t`Only owners and developers see keys. Ask an owner of this customer for that role.`} />
        </Panel>
      </Page>
    )
  }
  return (
    <Page
      title={t`Keys`}
      actions={
        <>
          {leak}
          {make}
        </>
      }
    >
      <Panel
        aside={
          search.key !== undefined && (
            <Link to="/c/$customerId/keys" params={{ customerId }} search={{}}>{t`All keys`}</Link>
          )
        }
      >
        <Loaded query={keys} height={200}>
          {({ data }) => {
            if (data.length === 0) {
              return (
                <EmptyState text={t`There is no key yet. A program needs one to send requests.`}>
                  {mayKeys && make}
                </EmptyState>
              )
            }
            const isFiltered = search.key === undefined && text.trim() !== ''
            const chosen = search.key === undefined ? byWeek(data) : data.filter(({ id }) => id === search.key)
            const rows = isFiltered ? chosen.filter(key => matchesKey(key, text.trim())) : chosen
            const table = (
              <DataTable
                label={t`Keys`}
                rows={rows}
                keyOf={({ id }) => id}
                columns={[
                  {
                    title: t`Key`,
                    place: 'name',
                    cell: key => (
                      <div className={styles.key}>
                        <Link to="/c/$customerId/activity" params={{ customerId }} search={{ key: key.id }}>
                          {key.name}
                        </Link>
                        {key.paused_at !== null && (
                          <>
                            {' '}
                            <State state="warn">{texts.paused}</State>
                          </>
                        )}
                        {key.record_content && <div className={styles.hint}>{texts.records}</div>}
                        <div className={styles.hint}>
                          <code>{key.hint}</code>
                        </div>
                        {key.former_key !== null && (
                          <div className={styles.hint}>
                            {texts.formerWorks} <When at={key.former_key.expires_at} />
                          </div>
                        )}
                      </div>
                    ),
                    sortBy: ({ name }) => name,
                  },
                  {
                    title: t`Limit`,
                    cell: key => <KeyLimit keyShown={key} onSet={mayKeys ? () => edit(key, 'limit') : undefined} />,
                  },
                  {
                    title: t`USD this week`,
                    align: 'right',
                    place: 'figure',
                    cell: ({ usage }) => <Charge usd={usage.week_usd} />,
                    sortBy: ({ usage }) => usage.week_usd,
                  },
                  {
                    title: t`USD in all`,
                    align: 'right',
                    cell: ({ usage }) => <Charge usd={usage.total_usd} />,
                    sortBy: ({ usage }) => usage.total_usd,
                  },
                  {
                    title: t`Models`,
                    cell: ({ allowed_models: models }) =>
                      models === null ? t`all` : models.length > 2 ? t`${models.length} models` : models.join(', '),
                  },
                  {
                    title: t`Expires`,
                    cell: ({ expires_at }) =>
                      expires_at === null ? t`never` : <When at={expires_at} form="distance" />,
                    sortBy: ({ expires_at }) => expires_at,
                  },
                  {
                    title: '',
                    align: 'right',
                    place: 'actions',
                    cell: key =>
                      mayKeys && (
                        <div className={styles.menu}>
                          <Menu position="bottom-end">
                            <Menu.Target>
                              <ActionIcon aria-label={t`Actions of ${key.name}`}>
                                <MoreIcon />
                              </ActionIcon>
                            </Menu.Target>
                            <Menu.Dropdown>
                              <Menu.Item onClick={() => pause.mutate(key)}>
                                {key.paused_at === null ? texts.pause : texts.resume}
                              </Menu.Item>
                              <Menu.Item onClick={() => edit(key, 'name')}>{texts.change}</Menu.Item>
                              <Menu.Item onClick={() => setRotated(key)}>{texts.rotate}</Menu.Item>
                              {key.former_key !== null && (
                                <Menu.Item onClick={() => setEnded(key)}>{texts.endFormer}</Menu.Item>
                              )}
                              <Menu.Item onClick={() => setDeleted(key)} color="var(--danger)">
                                {texts.delete}
                              </Menu.Item>
                            </Menu.Dropdown>
                          </Menu>
                        </div>
                      ),
                  },
                ]}
              />
            )
            return (
              <>
                {search.key === undefined && data.length > SEARCHED_FROM && (
                  <TextInput
                    label={t`Find a key`}
                    description={t`A part of its name, or the key itself`}
                    value={text}
                    onChange={event => setText(event.currentTarget.value)}
                    className={styles.search}
                  />
                )}
                {rows.length === 0 && isFiltered ? (
                  <EmptyState text={t`No key matches. Deleted keys are not listed.`} />
                ) : (
                  table
                )}
              </>
            )
          }}
        </Loaded>
      </Panel>
      <Suspense>
        {isMaking && (
          <NewKey
            onClose={() => {
              setMaking(false)
              if (search.make)
                void navigate({ to: '/c/$customerId/keys', params: { customerId }, search: {}, replace: true })
            }}
          />
        )}
        {rotated !== null && <RotateKey rotated={rotated} onClose={() => setRotated(null)} />}
        {isLeaked && (
          <LeakedKey
            onShow={({ id }) => {
              setLeaked(false)
              void navigate({ to: '/c/$customerId/keys', params: { customerId }, search: { key: id }, replace: true })
            }}
            onClose={() => {
              setLeaked(false)
              if (search.leaked)
                void navigate({ to: '/c/$customerId/keys', params: { customerId }, search: {}, replace: true })
            }}
          />
        )}
        {edited !== null && <KeyForm edited={edited} focus={focus} onClose={() => setEdited(null)} />}
      </Suspense>
      <ConfirmDialog
        isOpen={ended !== null}
        title={texts.endFormerTitle(ended?.name ?? '')}
        action={texts.endFormer}
        isBusy={endFormer.isPending}
        onConfirm={() => endFormer.mutate(ended!)}
        onClose={() => setEnded(null)}
      >
        <p>{texts.endFormerText}</p>
      </ConfirmDialog>
      <ConfirmDialog
        isOpen={deleted !== null}
        title={t`Delete ${deleted?.name ?? ''}?`}
        name={deleted?.name ?? ''}
        action={t`Delete the key`}
        isBusy={remove.isPending}
        onConfirm={() => remove.mutate(deleted!)}
        onClose={() => setDeleted(null)}
      >
        <p>{t`Programs that use it get an error within two seconds. A deleted key never comes back.`}</p>
      </ConfirmDialog>
    </Page>
  )
}

/** The key that spent most this week comes first; keys that spent the same keep their order. */
function byWeek(keys: readonly Key[]): Key[] {
  return keys.toSorted((a, b) => b.usage.week_usd - a.usage.week_usd)
}
