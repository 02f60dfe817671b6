import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { type HosterKey, hosterKeysQuery } from '../../api/hoster-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { ConfirmDialog } from '../../parts/ConfirmDialog.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { When } from '../../parts/When.tsx'
import { useHosterRights } from '../../shell/use-hoster.ts'
import { NewHosterKey } from './NewHosterKey.tsx'

/** The keys of a hoster's programs: makes and revokes them. */
export function HosterKeys({ hosterId }: { hosterId: string }) {
  const { seesKeys, mayKeys } = useHosterRights()
  const keys = useQuery({ ...hosterKeysQuery(hosterId), enabled: seesKeys })
  const [isMaking, setMaking] = useState(false)
  const [revoked, setRevoked] = useState<HosterKey | null>(null)
  const revoke = useWrite<HosterKey>(({ id }) => ({ method: 'DELETE', path: `hosters/${hosterId}/keys/${id}` }), {
    areas: ['hoster-keys'],
    done: (_, { name }) => t`${name} is revoked. It stops working on all nodes within two seconds.`,
    onDone: () => setRevoked(null),
  })
  if (!seesKeys) {
    return (
      <Panel title={t`Keys`}>
        <EmptyState text={t`Only owners and developers see keys. Ask an owner of this hoster for that role.`} />
      </Panel>
    )
  }
  const make = <Button onClick={() => setMaking(true)} size="compact-sm">{t`Make a key`}</Button>
  return (
    <Panel title={t`Keys`} aside={mayKeys && make}>
      <Loaded query={keys} height={120}>
        {({ data }) =>
          data.length === 0 ? (
            <EmptyState text={t`There is no key yet. The agent needs one with the scope serve.`} />
          ) : (
            <DataTable
              label={t`Keys`}
              rows={data}
              keyOf={({ id }) => id}
              columns={[
                {
                  title: t`Key`,
                  place: 'name',
                  cell: ({ name, hint }) => (
                    <>
                      {name} <code>{hint}</code>
                    </>
                  ),
                  sortBy: ({ name }) => name,
                },
                { title: t`Scopes`, cell: ({ scopes }) => scopes.join(', ') },
                {
                  title: t`Made`,
                  cell: ({ created_at }) => <When at={created_at} />,
                  sortBy: ({ created_at }) => created_at,
                },
                {
                  title: t`Expires`,
                  cell: ({ expires_at: at }) => (at === null ? t`never` : <When at={at} form="distance" />),
                  sortBy: ({ expires_at }) => expires_at,
                },
                {
                  title: '',
                  align: 'right',
                  place: 'actions',
                  cell: key =>
                    mayKeys && (
                      <Button variant="default" size="compact-sm" onClick={() => setRevoked(key)}>
                        <Trans>
                          Revoke<span className="visually-hidden"> {key.name}</span>
                        </Trans>
                      </Button>
                    ),
                },
              ]}
            />
          )
        }
      </Loaded>
      {isMaking && <NewHosterKey hosterId={hosterId} onClose={() => setMaking(false)} />}
      <ConfirmDialog
        isOpen={revoked !== null}
        title={t`Revoke ${revoked?.name ?? ''}?`}
        name={revoked?.name ?? ''}
        action={t`Revoke the key`}
        isBusy={revoke.isPending}
        onConfirm={() => revoke.mutate(revoked!)}
        onClose={() => setRevoked(null)}
      >
        <p>{t`Agents and programs that use it are cut off within two seconds, and running requests of the agent end. A revoked key never comes back.`}</p>
      </ConfirmDialog>
    </Panel>
  )
}
