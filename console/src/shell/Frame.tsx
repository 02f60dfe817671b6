import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import type { ComponentType, ReactNode } from 'react'
import { MenuIcon } from '../parts/icons.tsx'
import type { NavItem } from './nav-items.tsx'
import styles from './shell.module.css'

/** A link to a page. The parameters of its address are those of the current page. */
export type PageLink = ComponentType<
  Pick<NavItem, 'to' | 'isExact'> & { readonly className: string | undefined; readonly children: ReactNode }
>

/**
 * The layout of all signed-in screens: navigation on the left, or a bar of five at the bottom of a phone. It has no
 * state, so that the build can draw it without data; see prerender/render-frame.tsx.
 *
 * @param props.switcher which customer or hoster is shown
 * @param props.account the menu of the person
 * @param props.top the right end of the header
 * @param props.notice a line above every screen
 */
export function Frame({
  items,
  PageLink,
  switcher,
  account,
  top,
  notice,
  onFind,
  onMore,
  children,
}: {
  items: readonly NavItem[]
  PageLink: PageLink
  switcher: ReactNode
  account: ReactNode
  top?: ReactNode
  notice?: ReactNode
  onFind?: () => void
  onMore?: () => void
  children: ReactNode
}) {
  return (
    <div className={styles.shell}>
      <a href="#main" className={styles.skip}>{t`Skip to the content`}</a>
      <div className={styles.side}>
        <PageLink to="/" className={styles.brand}>
          <img src="/assets/icon.svg" alt="" width="24" height="24" />
          Switchyard
        </PageLink>
        {switcher}
        <nav className={styles.nav} aria-label={t`Pages`}>
          <NavLinks items={items} PageLink={PageLink} className={styles.navLink} />
        </nav>
        <div className={styles.sideFoot}>
          <button type="button" className={styles.navLink} onClick={onFind} aria-haspopup="dialog">
            <Trans>
              Find <kbd className={styles.hotkey}>Ctrl K</kbd>
            </Trans>
          </button>
          <a href="/docs" className={styles.navLink}>{t`API reference`}</a>
          {account}
        </div>
      </div>
      <div>
        {top && <header className={styles.top}>{top}</header>}
        {notice && (
          <div className={styles.notice} role="note">
            {notice}
          </div>
        )}
        {children}
      </div>
      <nav className={styles.bottom} aria-label={t`Main pages`}>
        <NavLinks items={items.slice(0, 4)} PageLink={PageLink} className={styles.bottomLink} />
        <button type="button" className={styles.bottomLink} onClick={onMore} aria-haspopup="dialog">
          <Trans>
            <MenuIcon />
            More
          </Trans>
        </button>
      </nav>
    </div>
  )
}

export function NavLinks({
  items,
  PageLink,
  className,
}: {
  items: readonly NavItem[]
  PageLink: PageLink
  className: string | undefined
}) {
  return items.map(({ name, icon, to, isExact }) => (
    <PageLink key={name} to={to} {...(isExact && { isExact })} className={className}>
      {icon}
      {name}
    </PageLink>
  ))
}

/** The amount in the header: the balance of a customer, or what is payable to a hoster. */
export function TopAmount({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      {name} <b>{children}</b> USD
    </>
  )
}
