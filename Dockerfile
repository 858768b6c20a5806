# An image of Rondo: what is built, its production dependencies, and a user that is not root.
#
#   docker build -t rondo .
#   docker run -p 127.0.0.1:7777:7777 -v rondo:/data -e RONDO_ADMIN_TOKEN=... rondo
#
# Without arguments it is a server (`rondo start`) on a data directory in the volume; with RONDO_STORE it is a node over
# a database. Any other command of Rondo can follow: docker run rondo --help. For workers, add your files:
#
#   FROM rondo
#   COPY flows /flows
#   CMD ["worker", "/flows/flows.ts"]
#
# This file is checked by a test, and was not built where it was written.
FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json bundle.config.ts ./
COPY src src
COPY tools tools
COPY dashboard dashboard
RUN npm run build && npm prune --omit=dev --ignore-scripts

FROM node:24-slim
# Many objects of a node live as long as one commit. A young generation of up to 64 MB saves up to a tenth of the CPU and costs some 100 MB. It begins
# with 16 MB, so that a fresh process does not copy its first objects again and again: by ENTRYPOINT, since NODE_OPTIONS does not accept that flag.
ENV NODE_ENV=production NODE_OPTIONS=--max-semi-space-size=64 RONDO_HOST=0.0.0.0 RONDO_STORE=file:/data
WORKDIR /app
COPY package.json LICENSE ./
COPY bin bin
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
RUN ln -s /app/bin/rondo.js /usr/local/bin/rondo && mkdir /data && chown node:node /data && chmod 700 /data
VOLUME /data
USER node
EXPOSE 7777
# For a server. A worker answers at its own port instead (--status-port): give its container a check of its own.
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.RONDO_PORT ?? 7777}/healthz`).then((a) => process.exit(a.ok ? 0 : 1), () => process.exit(1))"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["node", "--min-semi-space-size=16", "/app/bin/rondo.js"]
CMD ["start"]
