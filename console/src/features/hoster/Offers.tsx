import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useState } from 'react'
import type { HosterOffers } from '#api/hoster-console.ts'
import type { Manifest, ManifestModel, StoredManifest } from '#api/hoster-manifest.ts'
import { fromGateway } from '../../api/gateway-link.ts'
import { offersQuery } from '../../api/hoster-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { ConfirmDialog } from '../../parts/ConfirmDialog.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { When } from '../../parts/When.tsx'
import { useHosterId, useHosterRights } from '../../shell/use-hoster.ts'
import styles from './hoster.module.css'
import { manifestPath, manifestToEdit, perMillionText, withoutModel } from './manifest-edits.ts'
import { OfferPanel } from './OfferPanel.tsx'

const ModelDialog = lazy(fromGateway(async () => ({ default: (await import('./ModelDialog.tsx')).ModelDialog })))
const TermsDialog = lazy(fromGateway(async () => ({ default: (await import('./TermsDialog.tsx')).TermsDialog })))
const ManifestDialog = lazy(
  fromGateway(async () => ({ default: (await import('./ManifestDialog.tsx')).ManifestDialog })),
)

type Dialog = (
  | { kind: 'model'; edited: ManifestModel | null }
  | { kind: 'terms' }
  | { kind: 'manifest' }
  | { kind: 'remove'; id: string }
) &
  Read

/** A manifest with the version that it was read as. */
interface Read {
  manifest: Manifest
  version: number
}

/** The models of a hoster with their prices, and what other prices would do. */
export function Offers() {
  const hosterId = useHosterId()
  const offers = useQuery(offersQuery(hosterId))
  return (
    <Page title={t`Offers`}>
      <Loaded query={offers} height={480}>
        {found => <Body hosterId={hosterId} offers={found} />}
      </Loaded>
    </Page>
  )
}

function Body({ hosterId, offers }: { hosterId: string; offers: HosterOffers }) {
  const { manifest: stored } = offers
  const { mayManage } = useHosterRights()
  const [dialog, setDialog] = useState<Dialog | null>(null)
  const close = () => setDialog(null)
  const manifest = manifestToEdit(stored, offers.data)
  // The page reads again while a dialog is open. What the dialog edits keeps the version that it was read as, so that the
  // gateway refuses it after another change.
  const read: Read = { manifest, version: stored?.version ?? 0 }
  const remove = useWrite<Read & { id: string }>(
    ({ id, manifest, version }) => ({
      method: 'PUT',
      path: manifestPath(hosterId, version),
      body: withoutModel(manifest, id),
    }),
    { areas: ['hoster'], done: (_, { id }) => t`${id} is no longer offered.`, onDone: close },
  )
  const waiting = manifest.models.filter(({ id }) => !offers.data.some(({ model }) => model === id))
  const modelOf = (id: string) => manifest.models.find(each => each.id === id) ?? null
  return (
    <>
      <Panel
        title={t`Manifest`}
        aside={
          mayManage && (
            <div className={styles.buttons}>
              <Button
                size="compact-sm"
                onClick={() => setDialog({ kind: 'model', edited: null, ...read })}
              >{t`Add a model`}</Button>
              {manifest.models.length > 0 && (
                <Button
                  size="compact-sm"
                  variant="default"
                  onClick={() => setDialog({ kind: 'terms', ...read })}
                >{t`Region and data policy`}</Button>
              )}
              <Button
                size="compact-sm"
                variant="default"
                onClick={() => setDialog({ kind: 'manifest', ...read })}
              >{t`Edit as JSON`}</Button>
            </div>
          )
        }
      >
        {stored === null && offers.data.length === 0 ? (
          <EmptyState
            text={t`There is no model yet. Add the first one with its prices: nothing is offered before the operator approves.`}
          />
        ) : (
          <Facts
            facts={{
              [t`Version`]:
                stored === null ? (
                  t`none: the operator set these models`
                ) : (
                  <>
                    {stored.version}, {stored.source === 'sent' ? t`sent` : t`read from the server`}{' '}
                    <When at={stored.created_at} form="distance" />
                  </>
                ),
              [t`Region`]: manifest.region ?? t`not stated`,
              [t`Data policy`]: policyText(manifest.data_policy ?? null),
            }}
          />
        )}
      </Panel>
      {waiting.map(({ id, pricing }) => (
        <Panel key={id} title={id}>
          <p>
            <Trans>
              Not offered yet: {perMillionText(pricing.prompt)} USD per million tokens of input,{' '}
              {perMillionText(pricing.completion)} of output.
            </Trans>
          </p>
        </Panel>
      ))}
      {offers.data.map(offer => (
        <OfferPanel
          key={offer.model}
          offer={offer}
          quantization={modelOf(offer.model)?.quantization ?? null}
          onEdit={mayManage ? () => setDialog({ kind: 'model', edited: modelOf(offer.model), ...read }) : undefined}
          onRemove={
            mayManage && manifest.models.length > 1
              ? () => setDialog({ kind: 'remove', id: offer.model, ...read })
              : undefined
          }
        />
      ))}
      <Suspense>
        {dialog?.kind === 'model' && (
          <ModelDialog
            hosterId={hosterId}
            manifest={dialog.manifest}
            version={dialog.version}
            edited={dialog.edited}
            rules={offers.rules}
            onClose={close}
          />
        )}
        {dialog?.kind === 'terms' && (
          <TermsDialog hosterId={hosterId} manifest={dialog.manifest} version={dialog.version} onClose={close} />
        )}
        {dialog?.kind === 'manifest' && (
          <ManifestDialog hosterId={hosterId} manifest={dialog.manifest} version={dialog.version} onClose={close} />
        )}
      </Suspense>
      <ConfirmDialog
        isOpen={dialog?.kind === 'remove'}
        title={t`Stop offering ${dialog?.kind === 'remove' ? dialog.id : ''}?`}
        action={t`Stop offering it`}
        isBusy={remove.isPending}
        onConfirm={() => dialog?.kind === 'remove' && remove.mutate(dialog)}
        onClose={close}
      >
        <p>{t`New requests go to other servers at once. Running requests end as usual.`}</p>
      </ConfirmDialog>
    </>
  )
}

function policyText(policy: StoredManifest['manifest']['data_policy']): string {
  if (policy === null || policy === undefined) return t`not stated: customers must assume the worst`
  const { trains_on_data: trains, retention_days: days } = policy
  const kept = days === null ? t`kept without limit` : days === 0 ? t`not kept` : t`kept for ${days} days`
  return `${trains ? t`used for training` : t`not used for training`}, ${kept}`
}
